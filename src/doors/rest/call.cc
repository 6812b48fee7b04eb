#include "doors/rest/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "control/guest_path.h"
#include "doors/rest/answer_writer.h"
#include "doors/rest/json_pieces.h"
#include "doors/rest/json_reader.h"
#include "doors/rest/text.h"

namespace caisson::rest {

namespace json = boost::json;

Result<StreamGate::Ticket> StreamGate::enter(const std::string& caller) {
  if (counts_->open >= max_) {
    return failure(Errc::Exhausted, "the server has all the streams open that it may have");
  }
  const auto found = counts_->per_caller.find(caller);
  const std::size_t own = found == counts_->per_caller.end() ? 0 : found->second;
  if (own >= per_caller_max_) {
    return failure(Errc::Exhausted,
                   fmt::format("you have {} streams open, which is the most: close one", own));
  }
  ++counts_->per_caller[caller];
  ++counts_->open;
  return Ticket(counts_, caller);
}

StreamGate::Ticket::~Ticket() {
  if (!counts_) return;
  --counts_->open;
  const auto own = counts_->per_caller.find(caller_);
  if (own != counts_->per_caller.end() && --own->second == 0) counts_->per_caller.erase(own);
}

std::unexpected<Error> refuse(Call& call, unsigned status, std::string_view code,
                              std::string message) {
  call.status = status;
  call.code = code;
  return failure(Errc::InvalidArgument, std::move(message));
}

namespace {

std::unexpected<Error> too_large() {
  return failure(Errc::TooLarge,
                 fmt::format("body: at most {} bytes are accepted here", kJsonBytesMax));
}

// All of the body. Memory grows as bytes arrive, because a length is only a claim; of the tenant's
// budget it is taken at its word, so that who waits for room holds nothing meanwhile.
awaitable<Result<std::string>> read_body(Call& call) {
  constexpr std::size_t kStep = 16UL * 1024;
  const auto length = call.request().content_length;
  if (length.value_or(0) > kJsonBytesMax) co_return too_large();
  if (length) {
    auto room = co_await call.hold().resize(*length);
    if (!room) co_return std::unexpected(room.error());
  }
  std::string body;
  for (;;) {
    const std::size_t have = body.size();
    // One byte more than there may be, by which a longer body is seen.
    const std::size_t most = length.value_or(kJsonBytesMax) + 1 - have;
    const std::size_t room = std::min(std::max(kStep, have / 2), most);
    if (!length && !call.hold().try_resize(have + room)) co_return Budget::exhausted();
    body.resize(have + room);
    const auto free = std::as_writable_bytes(std::span(body)).subspan(have);
    auto got = co_await call.exchange.read_some(free);
    if (!got) co_return std::unexpected(got.error());
    body.resize(have + *got);
    if (*got == 0) co_return body;
    if (body.size() > kJsonBytesMax) co_return too_large();
  }
}

}  // namespace

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
  auto text = co_await read_body(call);
  if (!text) co_return std::unexpected(text.error());
  call.hold().force(text->size());
  call.body_digest = std::hash<std::string>{}(*text);
  co_return parse_json_object(*text);
}

awaitable<Result<void>> want_nothing(Call& call) {
  auto body = co_await read_json(call, Body::Optional);
  if (!body) co_return std::unexpected(body.error());
  if (!body->empty()) {
    const std::string name(body->begin()->key());
    co_return bad_field(name, name + " is not a field here: there is none");
  }
  co_return Result<void>{};
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
  AnswerWriter writer(call, status);
  JsonPieces pieces(body);
  pieces.next(writer.text(), kAnswerPieceBytes);
  if (!pieces.done()) {
    // It is there. Who only asked can ask again; what was done must be told.
    const std::size_t bytes = call.hold().bytes() + weight(body);
    const bool asked = call.request().method == http::Method::Get;
    if (!asked) call.hold().force(bytes);
    if (auto room = co_await call.hold().resize(bytes); !room) co_return room;
  }
  while (!pieces.done()) {
    if (auto sent = co_await writer.send(); !sent) co_return sent;
    pieces.next(writer.text(), kAnswerPieceBytes);
  }
  co_return co_await writer.finish();
}

awaitable<Result<void>> answer_nothing(Call& call) {
  if (call.turn != nullptr) call.turn->keep(204, "");
  co_await call.exchange.respond(204, "", "");
  co_return Result<void>{};
}

Result<void> want_websocket(Call& call) {
  if (call.request().wants_websocket) return {};
  call.exchange.set("Upgrade", "websocket");
  return refuse(call, 426, "UpgradeRequired", "this is a WebSocket: send an upgrade request");
}

std::string_view chosen_protocol(const Call& call) {
  const auto offered = doors::offered_protocols(call.request());
  return std::ranges::find(offered, doors::kSocketProtocol) != offered.end()
             ? doors::kSocketProtocol
             : std::string_view{};
}

}  // namespace caisson::rest
