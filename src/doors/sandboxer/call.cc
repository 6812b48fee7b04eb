#include "doors/sandboxer/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doors/shared/json_input.h"
#include "doors/shared/json_text.h"
#include "doors/shared/text.h"
#include "http/field.h"

namespace caisson::sandboxer {

namespace json = boost::json;

namespace {

constexpr std::size_t kPieceBytes = 16UL * 1024;
constexpr std::size_t kEchoBytesMax = 4096;  // of a body that is no JSON

// A missing type is taken for JSON, as the original does.
bool is_json(std::string_view type) {
  if (type.empty()) return true;
  const std::string_view plain = http::trim(type.substr(0, type.find(';')));
  if (http::same_name(plain, kJsonType)) return true;
  constexpr std::string_view kSuffix = "+json";
  return plain.size() > kSuffix.size() && plain.find('/') != std::string_view::npos &&
         http::same_name(plain.substr(plain.size() - kSuffix.size()), kSuffix);
}

std::unexpected<Error> wrong_json(Call& call, const doors::JsonInput& input) {
  const json::object problem{{"type", "json_invalid"},
                             {"loc", json::array{"body", input.at()}},
                             {"msg", "JSON decode error"},
                             {"input", json::object()},
                             {"ctx", json::object{{"error", input.reason()}}}};
  call.refusal =
      Call::Refusal{422, doors::json_text(json::object{{"detail", json::array{problem}}})};
  return failure(Errc::InvalidArgument, "the body is no JSON");
}

std::unexpected<Error> too_large(Call& call) {
  call.exchange.close_after();
  return refuse(call, 413, fmt::format("The body is too large: at most {} bytes", kBodyBytesMax));
}

const std::string* query_text(const Call& call, std::string_view name) {
  // The last one counts.
  for (auto one = call.query.rbegin(); one != call.query.rend(); ++one) {
    if (one->first == name) return &one->second;
  }
  return nullptr;
}

}  // namespace

std::string detail_body(std::string_view text) {
  return doors::json_text(json::object{{"detail", doors::lossy_utf8(text)}});
}

std::unexpected<Error> refuse(Call& call, unsigned status, std::string_view detail) {
  call.refusal = Call::Refusal{status, detail_body(detail)};
  return failure(Errc::InvalidArgument, std::string(detail));
}

std::unexpected<Error> refuse(Call& call, const doors::Problems& problems) {
  call.refusal = Call::Refusal{422, problems.body()};
  return failure(Errc::InvalidArgument, "the request does not fit its schema");
}

Call::Refusal refusal_of(const Error& error) {
  const auto with = [&](unsigned status) {
    return Call::Refusal{status, detail_body(error.message)};
  };
  switch (error.code) {
    case Errc::InvalidArgument:
    case Errc::Unsupported:
      return with(400);
    case Errc::NotFound:
      return with(404);
    case Errc::Denied:
      return with(403);
    case Errc::Unauthenticated:
      return with(401);
    case Errc::AlreadyExists:
    case Errc::Busy:
      return with(409);
    case Errc::TooLarge:
      return with(413);
    case Errc::Exhausted:
      return with(429);
    case Errc::Protocol:
      return with(502);
    case Errc::TimedOut:
      return with(504);
    case Errc::Gone:
    case Errc::LauncherGone:
    case Errc::StoreFull:
      return with(503);
    case Errc::Internal:
      break;
  }
  return {500, {}};  // told to whoever runs the server only
}

Result<void> hold_answer(Call& call, std::size_t bytes) {
  if (bytes <= doors::kUncountedBytesMax || bytes <= call.hold().bytes()) return {};
  if (!call.hold().overdraw(bytes)) return doors::Budget::exhausted();
  return {};
}

awaitable<Result<void>> answer(Call& call, const json::object& body) {
  std::string text = doors::json_text(body);
  // As values and as text.
  if (auto room = hold_answer(call, 2 * text.size()); !room) co_return room;
  co_await call.exchange.respond(200, kJsonType, std::move(text));
  co_return Result<void>{};
}

awaitable<Result<void>> read_body(Call& call) {
  const http::Request& request = call.request();
  if (!request.has_body || request.content_length == 0) co_return Result<void>{};
  const bool is_text = !is_json(request.field("Content-Type"));
  doors::JsonLimits limits;
  limits.text_bytes_max = kBodyBytesMax;
  doors::JsonInput input(limits);
  std::string text;
  std::array<std::byte, kPieceBytes> buffer;
  std::size_t read = 0;
  for (;;) {
    const auto got = co_await call.exchange.read_some(buffer);
    if (!got) co_return std::unexpected(got.error());
    const std::string_view piece(reinterpret_cast<const char*>(buffer.data()), *got);
    read += *got;
    if (read > 2 * kBodyBytesMax) co_return too_large(call);
    if (is_text) {
      text += piece.substr(0, kEchoBytesMax - std::min(kEchoBytesMax, text.size()));
      if (*got == 0) break;
      continue;
    }
    if (*got == 0 && input.empty()) co_return Result<void>{};
    switch (*got == 0 ? input.finish() : input.feed(piece)) {
      case doors::JsonInput::Status::Good:
        break;
      case doors::JsonInput::Status::Wrong:
        co_return wrong_json(call, input);
      case doors::JsonInput::Status::Unreadable:
        co_return refuse(call, 400, "There was an error parsing the body");
      case doors::JsonInput::Status::TooLarge:
        co_return too_large(call);
    }
    if (*got == 0) break;
    if (!call.hold().try_resize(input.held())) co_return doors::Budget::exhausted();
  }
  // What is no JSON is one string, which fits no schema.
  call.body = is_text ? json::value(doors::lossy_utf8(text)) : input.take();
  call.body_missing = call.body.is_null();
  co_return Result<void>{};
}

Result<void> need_body(Call& call) {
  if (!call.body_missing) return {};
  doors::Problems problems;
  problems.missing(json::array{"body"}, nullptr);
  return refuse(call, problems);
}

bool query_flag(const Call& call, std::string_view name, doors::Problems& problems) {
  const std::string* text = query_text(call, name);
  if (text == nullptr) return false;
  return doors::read_flag(json::value(doors::lossy_utf8(*text)), json::array{"query", name},
                          problems)
      .value_or(false);
}

std::int64_t query_integer(const Call& call, std::string_view name, std::int64_t otherwise,
                           doors::Problems& problems) {
  const std::string* text = query_text(call, name);
  if (text == nullptr) return otherwise;
  return doors::read_integer(json::value(doors::lossy_utf8(*text)), {}, json::array{"query", name},
                             problems)
      .value_or(otherwise);
}

Result<RowPtr> any_row(Call& call, std::string_view id) {
  RowPtr row = call.services().rows.by_id(id);
  // A foreign one and one that never was are the same answer.
  if (!row || row->tenant != call.caller.tenant) return refuse(call, 404, kNoSandbox);
  return row;
}

Result<RowPtr> any_row(Call& call) { return any_row(call, call.match.id); }

Result<RowPtr> living_row(Call& call, std::string_view id) {
  RowPtr row = TRY(any_row(call, id));
  if (!row->living() || row->ending) return refuse(call, 404, kNoSandbox);
  return row;
}

Result<RowPtr> living_row(Call& call) { return living_row(call, call.match.id); }

}  // namespace caisson::sandboxer
