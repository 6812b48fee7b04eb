#include "doors/daiv/body.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/object.hpp>

#include "doors/daiv/base64_stream.h"
#include "doors/daiv/call.h"
#include "doors/daiv/json_text.h"
#include "doors/daiv/python_text.h"
#include "doors/shared/json_input.h"
#include "http/field.h"

namespace caisson::daiv {

namespace json = boost::json;

namespace {

constexpr std::size_t kPieceBytes = 16UL * 1024;

// A missing type is taken for JSON, as the older version does.
bool is_json(std::string_view type) {
  if (type.empty()) return true;
  const std::string_view plain = http::trim(type.substr(0, type.find(';')));
  if (http::same_name(plain, "application/json")) return true;
  constexpr std::string_view kApplication = "application/";
  constexpr std::string_view kSuffix = "+json";
  return plain.size() > kApplication.size() + kSuffix.size() &&
         http::same_name(plain.substr(0, kApplication.size()), kApplication) &&
         http::same_name(plain.substr(plain.size() - kSuffix.size()), kSuffix);
}

std::unexpected<Error> too_large(Call& call, std::string_view what, std::size_t most) {
  return refuse(call, 413, fmt::format("{}: at most {} bytes are accepted here", what, most));
}

std::unexpected<Error> no_room(Call& call) {
  call.exchange.set("Retry-After", "1");
  return refuse(call, 503, "Too much is being sent at once: try again");
}

// The streamed field on its way to where it goes.
class Streamed {
 public:
  Streamed(Call& call, BodyShape::Into into) : call_(call), into_(into) {}

  awaitable<Result<void>> take(doors::JsonInput::Piece piece) {
    if (piece.fresh) {
      decoder_ = {};
      bytes_.clear();
      spool_.reset();
    }
    if (into_ == BodyShape::Into::Nothing || piece.text.empty()) co_return Result<void>{};
    std::string& out = into_ == BodyShape::Into::Memory ? bytes_ : decoded_;
    decoder_.feed(piece.text, out);
    if (into_ == BodyShape::Into::Memory) {
      if (bytes_.size() > kContentBytesMax) co_return too_large(call_, "content", kContentBytesMax);
      co_return Result<void>{};
    }
    if (decoded_.empty()) co_return Result<void>{};
    if (!spool_) {
      auto spool = call_.fleet().spool(call_.caller);
      if (!spool) co_return std::unexpected(spool.error());
      spool_ = *std::move(spool);
    }
    auto written = co_await spool_->write(std::as_bytes(std::span(decoded_)));
    decoded_.clear();
    co_return written;
  }

  void finish(Body& body) {
    body.base64_error = decoder_.finish();
    body.spool = std::move(spool_);
    body.bytes = std::move(bytes_);
  }
  [[nodiscard]] std::size_t held() const noexcept { return bytes_.size(); }

 private:
  Call& call_;
  BodyShape::Into into_;
  Base64Stream decoder_;
  std::string decoded_;
  std::string bytes_;
  std::shared_ptr<control::Spool> spool_;
};

Result<void> judge(Call& call, const doors::JsonInput& input, doors::JsonInput::Status status,
                   const BodyShape& shape) {
  switch (status) {
    case doors::JsonInput::Status::Good:
      return {};
    case doors::JsonInput::Status::TooLarge:
      return too_large(call, "body", shape.text_bytes_max);
    case doors::JsonInput::Status::Unreadable:
      return refuse(call, 400, "There was an error parsing the body");
    case doors::JsonInput::Status::Wrong:
      break;
  }
  const json::object problem{{"type", "json_invalid"},
                             {"loc", json::array{"body", input.at()}},
                             {"msg", "JSON decode error"},
                             {"input", json::object()},
                             {"ctx", json::object{{"error", input.reason()}}}};
  call.refusal = Call::Refusal{422, json_text(json::object{{"detail", json::array{problem}}})};
  return failure(Errc::InvalidArgument, "the body is no JSON");
}

awaitable<Result<Body>> read_json(Call& call, const BodyShape& shape, Known known) {
  doors::JsonLimits limits;
  limits.text_bytes_max = known == Known::Yes ? shape.text_bytes_max : kUnknownBytesMax;
  limits.keep = known == Known::Yes;
  doors::JsonInput input(limits, std::string(shape.streamed));
  Streamed streamed(call, known == Known::Yes ? shape.into : BodyShape::Into::Nothing);
  std::array<std::byte, kPieceBytes> buffer;
  std::size_t read = 0;
  for (;;) {
    auto got = co_await call.exchange.read_some(buffer);
    if (!got) co_return std::unexpected(got.error());
    const bool end = *got == 0;
    const std::string_view piece(reinterpret_cast<const char*>(buffer.data()), *got);
    if (end && input.empty()) co_return Body{};
    const auto status = end ? input.finish() : input.feed(piece);
    if (status == doors::JsonInput::Status::TooLarge && known == Known::No) co_return Body{};
    if (auto good = judge(call, input, status, shape); !good)
      co_return std::unexpected(good.error());
    if (auto taken = co_await streamed.take(input.take_piece()); !taken)
      co_return std::unexpected(taken.error());
    if (end) break;
    read += *got;
    // Enough of somebody whom nobody knows: the key is told to be wrong.
    if (known == Known::No && read > kUnknownBytesMax) co_return Body{};
    if (known == Known::Yes && !call.hold().try_resize(input.held() + streamed.held()))
      co_return no_room(call);
  }
  Body body;
  body.value = input.take();
  body.missing = body.value.is_null();
  streamed.finish(body);
  co_return body;
}

// What is no JSON is one string, which fits no schema.
awaitable<Result<Body>> read_raw(Call& call) {
  std::string text;
  std::array<std::byte, 4096> buffer;
  for (;;) {
    auto got = co_await call.exchange.read_some(buffer);
    if (!got) co_return std::unexpected(got.error());
    if (*got == 0) break;
    text.append(reinterpret_cast<const char*>(buffer.data()), *got);
    if (text.size() > kRawBytesMax) co_return too_large(call, "body", kRawBytesMax);
  }
  Body body;
  body.missing = text.empty();
  if (!text.empty()) body.value = json::value(lossy_utf8(text));
  co_return body;
}

}  // namespace

awaitable<Result<Body>> read_body(Call& call, BodyShape shape, Known known) {
  const http::Request& request = call.request();
  if (!request.has_body || request.content_length == 0) co_return Body{};
  if (is_json(request.field("Content-Type"))) co_return co_await read_json(call, shape, known);
  if (known == Known::No) co_return Body{};
  co_return co_await read_raw(call);
}

}  // namespace caisson::daiv
