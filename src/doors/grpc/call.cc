#include "doors/grpc/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "doors/grpc/fields.h"

namespace caisson::grpc {
namespace {

constexpr std::size_t kFirstReadBytes = 4096;  // before anybody knows how much will come
constexpr std::size_t kReadBytes = 64UL * 1024;

Status fault_status(const MessageCutter& cutter, std::size_t max) {
  switch (cutter.fault()) {
    case MessageCutter::Fault::None:
      break;
    case MessageCutter::Fault::TooLarge:
      return {Code::ResourceExhausted,
              fmt::format("Received message larger than max ({} vs. {})", cutter.announced(), max)};
    case MessageCutter::Fault::Compressed:
      return {Code::Unimplemented, "compressed messages are not taken: send them as they are"};
    case MessageCutter::Fault::Flags:
      return {Code::Internal, "a frame with flags that mean nothing"};
  }
  return {};
}

Trailers trailers_of(const Status& status) {
  Trailers out{{"grpc-status", std::to_string(static_cast<unsigned>(status.code))}};
  if (!status.message.empty()) out.emplace_back("grpc-message", percent_encode(status.message));
  return out;
}

}  // namespace

awaitable<Outcome<std::optional<std::string>>> Call::read() {
  const std::size_t max = request_bytes_max;
  if (!cutter_) cutter_ = std::make_unique<MessageCutter>(max);
  for (;;) {
    if (auto next = cutter_->next()) co_return std::move(next);
    if (cutter_->fault() != MessageCutter::Fault::None) {
      if (dialect == Dialect::Web) co_await read_away(cutter_->announced());
      co_return std::unexpected(fault_status(*cutter_, max));
    }
    if (body_over_) {
      if (!cutter_->half()) co_return std::nullopt;
      co_return std::unexpected(Status{Code::Internal, "the body ends in the middle of a message"});
    }
    // All that is announced, and not what has come: of many who wait for room, those who have it
    // must be able to go on. Without a head it is next to nothing, and not counted.
    const std::size_t missing = cutter_->missing();
    const std::size_t wanted = (missing > 0 ? cutter_->announced() : 0) + kFirstReadBytes;
    if (auto room = co_await hold().resize(std::max(wanted, hold().bytes())); !room)
      co_return std::unexpected(status_of(room.error()));
    const auto piece = cutter_->open(missing > 0 ? std::min(missing, kReadBytes) : kFirstReadBytes);
    const auto got = co_await exchange_.read_some(piece);
    cutter_->close(got.value_or(0));
    if (!got) co_return std::unexpected(status_of(got.error()));
    if (*got == 0) body_over_ = true;
  }
}

// A client of HTTP/1.1 hears nothing before all of its body is sent: what is not much too large is
// taken off its hands.
awaitable<void> Call::read_away(std::size_t bytes) {
  if (bytes > 2 * options().message_bytes_max) co_return;
  std::array<std::byte, kFirstReadBytes> piece;
  for (std::size_t taken = 0; taken <= bytes;) {
    const auto got = co_await exchange_.read_some(piece);
    if (!got || *got == 0) co_return;
    taken += *got;
  }
}

awaitable<Status> Call::read_only() {
  auto first = co_await read();
  if (!first) co_return std::move(first.error());
  if (!*first) co_return Status{Code::Internal, "the call has no message"};
  message = **std::move(first);
  auto second = co_await read();
  if (!second) co_return std::move(second.error());
  if (*second) co_return Status{Code::Internal, "the call has more than one message"};
  co_return Status{};
}

Status Call::parse(google::protobuf::Message& into) {
  const std::string bytes = std::exchange(message, {});
  if (count_fields(bytes, kFieldsMax) > kFieldsMax)
    return {Code::ResourceExhausted,
            fmt::format("Received message with more than {} fields", kFieldsMax)};
  if (!into.ParseFromString(bytes)) return {Code::Internal, "Exception deserializing request!"};
  into.DiscardUnknownFields();
  return {};
}

awaitable<Result<void>> Call::begin() {
  if (exchange_.begun()) co_return Result<void>{};
  co_return co_await exchange_.begin(200, content_type, std::nullopt);
}

awaitable<Result<void>> Call::write(const google::protobuf::MessageLite& what) {
  std::string frame;
  const std::size_t begun = begin_frame(frame);
  what.AppendToString(&frame);
  end_frame(frame, begun);
  co_return co_await write_frames(frame);
}

awaitable<Result<void>> Call::write_frames(std::string_view frames) {
  if (auto begun = co_await begin(); !begun) co_return begun;
  co_return co_await exchange_.write(std::as_bytes(std::span(frames)));
}

void Call::reply(const google::protobuf::MessageLite& what) {
  reply_.clear();
  const std::size_t begun = begin_frame(reply_);
  what.AppendToString(&reply_);
  end_frame(reply_, begun);
  hold().force(std::max(hold().bytes(), reply_.size()));
}

awaitable<void> Call::finish(const Status& status) {
  const Trailers trailers = trailers_of(status);
  if (!status.ok()) reply_.clear();
  if (dialect == Dialect::Native) {
    for (const auto& [name, value] : trailers) exchange_.set_trailer(name, value);
  } else if (!exchange_.begun()) {
    append_trailer_frame(reply_, trailers);
  }
  if (!exchange_.begun()) {
    co_await exchange_.respond(200, content_type, std::move(reply_));
    co_return;
  }
  if (dialect == Dialect::Web) {
    std::string last;
    append_trailer_frame(last, trailers);
    if (!co_await exchange_.write(std::as_bytes(std::span(last)))) co_return;
  }
  (void)co_await exchange_.end();
}

}  // namespace caisson::grpc
