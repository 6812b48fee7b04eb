#include "doors/rest/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "control/guest_path.h"
#include "doors/rest/json_reader.h"
#include "doors/rest/text.h"
#include "policy/json_text.h"

namespace caisson::rest {

namespace json = boost::json;

Result<StreamGate::Ticket> StreamGate::enter(const std::string& caller) {
  if (open_ >= max_) {
    return failure(Errc::Exhausted, fmt::format("{} streams are open, which is the most", open_));
  }
  std::size_t& own = per_caller_[caller];
  if (own >= per_caller_max_) {
    return failure(Errc::Exhausted,
                   fmt::format("you have {} streams open, which is the most: close one", own));
  }
  ++own;
  ++open_;
  return Ticket(*this, caller);
}

void StreamGate::leave(const std::string& caller) {
  --open_;
  const auto own = per_caller_.find(caller);
  if (own != per_caller_.end() && --own->second == 0) per_caller_.erase(own);
}

std::unexpected<Error> refuse(Call& call, unsigned status, std::string_view code,
                              std::string message) {
  call.status = status;
  call.code = code;
  return failure(Errc::InvalidArgument, std::move(message));
}

awaitable<Result<json::object>> read_json(Call& call, Body body) {
  const http::Request& request = call.request();
  const bool empty = !request.has_body || request.content_length == 0;
  if (empty && body == Body::Optional) co_return json::object{};
  if (empty) co_return failure(Errc::InvalidArgument, "the body is missing: want a JSON object");
  // A form of a foreign web page can send text/plain and its like, never this type.
  const std::string_view type = request.field("Content-Type");
  const std::string_view plain = type.substr(0, type.find_first_of("; \t"));
  if (!http::same_name(plain, "application/json")) {
    co_return refuse(call, 415, "UnsupportedMediaType",
                     "Content-Type is \"" + std::string(cut_utf8(type, 128)) +
                         "\": send Content-Type: application/json");
  }
  auto text = co_await call.exchange.read_all(kJsonBytesMax);
  if (!text) co_return std::unexpected(text.error());
  co_return parse_json_object(*text);
}

std::optional<std::string_view> query_text(const Call& call, std::string_view name) {
  for (const auto& [key, value] : call.query) {
    if (key == name) return value;
  }
  return std::nullopt;
}

Result<bool> query_flag(const Call& call, std::string_view name, bool otherwise) {
  const auto text = query_text(call, name);
  if (!text) return otherwise;
  if (*text == "true" || *text == "1") return true;
  if (*text == "false" || *text == "0") return false;
  return bad_field(std::string(name),
                   fmt::format("{} is \"{}\": want true or false", name, cut_utf8(*text, 64)));
}

Result<std::optional<std::uint64_t>> whole_number(std::string_view name, std::string_view text,
                                                  std::uint64_t min, std::uint64_t max) {
  std::uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size() || value < min || value > max) {
    return bad_field(std::string(name),
                     fmt::format("{} is \"{}\": want a whole number from {} to {}", name,
                                 cut_utf8(text, 64), min, max));
  }
  return value;
}

Result<std::optional<std::uint64_t>> query_integer(const Call& call, std::string_view name,
                                                   std::uint64_t min, std::uint64_t max) {
  const auto text = query_text(call, name);
  if (!text) return std::optional<std::uint64_t>{};
  return whole_number(name, *text, min, max);
}

Result<std::uint32_t> process_of(const Call& call) {
  const auto id = whole_number("pid", call.match.part, 1, UINT32_MAX);
  // A process that cannot exist is one that does not.
  if (!id) return failure(Errc::NotFound, "no such process");
  return static_cast<std::uint32_t>(**id);
}

// The same judgement as for every other path, before a handler does anything with it.
Result<std::string> guest_path(std::string_view field, std::string_view text) {
  if (!text.empty()) (void)TRY(control::guest_path(text, "/", field));
  return std::string(text);
}

Result<std::string> folder_path(const Call& call) {
  return guest_path("path", call.match.tail.empty() ? std::string_view(".") : call.match.tail);
}

awaitable<Result<void>> answer(Call& call, unsigned status, const json::object& body) {
  std::string text = policy::json_text(body);
  text += '\n';
  co_await call.exchange.respond(status, "application/json", std::move(text));
  co_return Result<void>{};
}

awaitable<Result<void>> answer_nothing(Call& call) {
  co_await call.exchange.respond(204, "", "");
  co_return Result<void>{};
}

Result<void> want_websocket(Call& call) {
  if (call.request().wants_websocket) return {};
  call.exchange.set("Upgrade", "websocket");
  return refuse(call, 426, "UpgradeRequired", "this is a WebSocket: send an upgrade request");
}

std::string_view chosen_protocol(const Call& call) {
  const auto offered = offered_protocols(call.request());
  return std::ranges::find(offered, kSocketProtocol) != offered.end() ? kSocketProtocol
                                                                      : std::string_view{};
}

}  // namespace caisson::rest
