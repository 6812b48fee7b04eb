// The answer: a head written by hand and the body behind it in one call to the kernel.
#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

#include "http/connection.h"

namespace caisson::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

iovec piece_of(std::string_view text) noexcept {
  return {const_cast<char*>(text.data()), text.size()};
}

std::size_t size_of(std::span<const iovec> pieces) noexcept {
  std::size_t size = 0;
  for (const iovec& piece : pieces) size += piece.iov_len;
  return size;
}

// A small body is cheaper copied behind the head than described to the kernel as a second piece.
constexpr std::size_t kJoinBytesMax = 4096;

// Fields that speak about this connection. A 426 names what it wants instead.
bool is_for_switching(std::string_view name, unsigned status) noexcept {
  return same_name(name, "connection") || (same_name(name, "upgrade") && status != 426);
}

}  // namespace

void Connection::set(std::string_view name, std::string_view value) {
  put_answer_field(fields_, name, value);
}

void Connection::make_head(unsigned status, std::string_view content_type, BodyKind kind,
                           std::uint64_t length) {
  status_ = status;
  kind_ = kind;
  no_body_ = kind == BodyKind::None || request_.method == Method::Head;
  ResponseHead head;
  if (status != 101) {
    std::erase_if(fields_,
                  [status](const Field& field) { return is_for_switching(field.name, status); });
    said_close_ = close_ || !framing_.keep_alive || core_->stopping || !drainable() ||
                  kind == BodyKind::ToClose;
    if (said_close_) {
      head.connection = "close";
    } else if (!framing_.http11) {
      head.connection = "keep-alive";
    }
  }
  head.status = status;
  head.content_type = is_field_value(content_type) ? content_type : std::string_view();
  head.date = core_->date.now();
  head.request_id = request_.id;
  head.fields = fields_;
  head.kind = kind;
  head.length = length;
  write_head(head, out_);
}

bool Connection::send_now(Pieces& pieces) noexcept {
  while (!pieces.empty()) {
    if (pieces.front().iov_len == 0) {
      pieces = pieces.subspan(1);
      continue;
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t sent = ::sendmsg(wire_->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) broken_ = true;
      return false;
    }
    auto left = static_cast<std::size_t>(sent);
    while (!pieces.empty() && left >= pieces.front().iov_len) {
      left -= pieces.front().iov_len;
      pieces = pieces.subspan(1);
    }
    if (left > 0) {
      pieces.front().iov_base = static_cast<char*>(pieces.front().iov_base) + left;
      pieces.front().iov_len -= left;
    }
  }
  return true;
}

awaitable<Result<void>> Connection::send(Pieces pieces) {
  std::uint64_t deadline = 0;  // renewed by progress; a byte now and then is none
  std::size_t unsent = 0;      // when it was
  while (!broken_ && !send_now(pieces)) {
    if (broken_) break;
    const Phase before = phase_;
    const std::size_t left = size_of(pieces);
    // Behind a switch of protocols the other half goes on reading meanwhile.
    arm(before == Phase::Switched ? before : Phase::Answer, core_->limits.stall_seconds);
    if (deadline == 0 || unsent - left >= kProgressBytesMin) {
      deadline = wire_->deadline;
      unsent = left;
    }
    wire_->deadline = deadline;
    error_code ec;
    co_await socket_.async_wait(Socket::wait_write, asio::redirect_error(asio::use_awaitable, ec));
    disarm(before);
    burst_ = 0;
    // Whoever cancels in the middle of an answer leaves half of it on the wire.
    if (ec) broken_ = true;
  }
  if (broken_) co_return failure(Errc::Gone, "the client has left or reads nothing");
  co_return Result<void>();
}

// One fast peer must not keep the thread: after a burst the others have their turn.
awaitable<void> Connection::breathe(std::size_t bytes) {
  burst_ += bytes;
  if (burst_ < kBurstBytesMax) co_return;
  burst_ = 0;
  co_await asio::post(socket_.get_executor(), asio::use_awaitable);
}

awaitable<void> Connection::respond(unsigned status, std::string_view content_type,
                                    std::string body) {
  if (begun()) {
    broken_ = true;
    co_return;
  }
  const bool bodiless = status < 200 || status == 204 || status == 304;
  make_head(status, bodiless ? std::string_view() : content_type,
            bodiless ? BodyKind::None : BodyKind::Length, body.size());
  ended_ = true;
  std::array<iovec, 2> both{};
  std::size_t count = 1;
  if (!no_body_ && body.size() <= kJoinBytesMax) {
    out_ += body;
  } else if (!no_body_) {
    both[count++] = piece_of(body);
  }
  both[0] = piece_of(out_);
  Pieces pieces(both.data(), count);
  if (!send_now(pieces)) (void)co_await send(pieces);
}

awaitable<Result<void>> Connection::begin(unsigned status, std::string_view content_type,
                                          std::optional<std::uint64_t> length) {
  if (begun()) co_return failure(Errc::Internal, "a second answer to one request");
  BodyKind kind = framing_.http11 ? BodyKind::Chunked : BodyKind::ToClose;
  if (length) kind = BodyKind::Length;
  if (status < 200 || status == 204 || status == 304) kind = BodyKind::None;
  answer_left_ = length.value_or(0);
  make_head(status, kind == BodyKind::None ? std::string_view() : content_type, kind, answer_left_);
  if (status == 101) {
    ended_ = true;
    disarm(Phase::Switched);
  }
  iovec piece = piece_of(out_);
  const Pieces pieces(&piece, 1);
  co_return co_await send(pieces);
}

awaitable<Result<void>> Connection::write(std::span<const std::byte> bytes) {
  if (!begun() || ended_) co_return failure(Errc::Internal, "write() outside of an answer");
  if (broken_) co_return failure(Errc::Gone, "the client has left or reads nothing");
  if (bytes.empty() || no_body_) co_return Result<void>();
  if (kind_ == BodyKind::Length) {
    if (bytes.size() > answer_left_) {
      broken_ = true;
      co_return failure(Errc::Internal, "the answer is longer than it said");
    }
    answer_left_ -= bytes.size();
  }
  std::array<iovec, 3> all{};
  std::array<char, 24> size_line{};
  const std::string_view data(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::size_t first = 1;
  std::size_t count = 1;
  if (kind_ == BodyKind::Chunked) {
    const auto end = fmt::format_to_n(size_line.data(), size_line.size(), "{:x}\r\n", bytes.size());
    all[0] = piece_of(std::string_view(size_line.data(), end.size));
    all[2] = piece_of("\r\n");
    first = 0;
    count = 3;
  }
  all[1] = piece_of(data);
  Pieces pieces(all.data() + first, count);
  if (!send_now(pieces)) {
    auto sent = co_await send(pieces);
    if (!sent) co_return sent;
  }
  co_await breathe(bytes.size());
  co_return Result<void>();
}

awaitable<Result<void>> Connection::end() {
  if (!begun() || ended_) co_return failure(Errc::Internal, "end() outside of an answer");
  if (kind_ == BodyKind::Length && answer_left_ > 0 && !no_body_) {
    broken_ = true;
    co_return failure(Errc::Internal, "the answer is shorter than it said");
  }
  ended_ = true;
  if (kind_ != BodyKind::Chunked || no_body_) co_return Result<void>();
  iovec piece = piece_of("0\r\n\r\n");
  const Pieces pieces(&piece, 1);
  co_return co_await send(pieces);
}

awaitable<Result<void>> Connection::raw_write(std::span<const std::byte> bytes) {
  if (phase_ != Phase::Switched) co_return failure(Errc::Internal, "raw_write() before a 101");
  const std::string_view data(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  iovec piece = piece_of(data);
  const Pieces pieces(&piece, 1);
  auto sent = co_await send(pieces);
  if (sent) co_await breathe(bytes.size());
  co_return sent;
}

awaitable<Result<std::unique_ptr<WebSocket>>> Connection::accept_websocket(
    std::string_view protocol) {
  if (begun()) co_return failure(Errc::Internal, "a WebSocket after an answer");
  if (!request_.wants_websocket) {
    co_return bad_field("Upgrade", "this address speaks WebSocket: send 'Upgrade: websocket'");
  }
  if (request_.field("Sec-WebSocket-Version") != "13") {
    co_return bad_field("Sec-WebSocket-Version", "Sec-WebSocket-Version: only 13 is spoken here");
  }
  constexpr std::size_t kKeyBytes = 24;  // 16 bytes in base64
  if (request_.field("Sec-WebSocket-Key").size() != kKeyBytes) {
    co_return bad_field("Sec-WebSocket-Key", "Sec-WebSocket-Key: want 16 bytes in base64");
  }
  // Frames may be sent only behind our answer; what is there now is something else.
  if (in_begin_ != in_end_ || request_.has_body) {
    co_return bad_field("body", "a WebSocket's handshake has no body");
  }
  if (!is_field_value(protocol)) co_return failure(Errc::Internal, "not a protocol's name");
  status_ = 101;
  ended_ = true;
  disarm(Phase::Switched);
  co_return co_await open_websocket(core_, std::move(socket_), wire_, request_,
                                    std::string(protocol));
}

}  // namespace caisson::http
