// tools/call: which tool, which sandbox, and the shape of the answer.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/id.h"
#include "doors/mcp/tool.h"
#include "doors/shared/json_text.h"
#include "doors/shared/text.h"

namespace caisson::mcp {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr std::size_t kErrorBytesMax = 2048;
constexpr std::size_t kTokenBytesMax = 256;  // of a progress token

json::object content(std::string text) {
  return json::object{{"type", "text"}, {"text", std::move(text)}};
}

std::string told(const Call& call, const Error& error) {
  if (error.code != Errc::Internal && error.code != Errc::Protocol)
    return doors::lossy_utf8(doors::cut_utf8(error.message, kErrorBytesMax));
  return internal(call, error).message;
}

json::object failed(const Call& call, const Error& error) {
  json::object out;
  out["content"] = json::array{content(told(call, error))};
  out["isError"] = true;
  return out;
}

std::string note_of(const Call& call, const Place& place) {
  if (place.made == Place::Made::Again)
    return "The sandbox of before had ended; this one is new, and its files are gone.";
  if (place.made == Place::Made::Now && !call.home)
    return fmt::format("This is a new sandbox. Pass sandbox: \"{}\" in later calls to go on in it.",
                       place.sandbox);
  return {};
}

// The one that the arguments name, or the one that stands for none.
awaitable<Result<Place>> place_of(Call& call, const Tool& tool, json::object& arguments) {
  const json::value* said = arguments.if_contains("sandbox");
  if (said != nullptr && !said->is_null()) {
    if (!said->is_string() || !SandboxId::parse(said->get_string()))
      co_return bad_field("sandbox",
                          "arguments.sandbox: want the id of a sandbox, 26 characters, as an "
                          "earlier answer named it");
    Place place{std::string(said->get_string()), {}};
    arguments.erase("sandbox");
    if (auto known = call.fleet().get(call.caller, place.sandbox); !known)
      co_return std::unexpected(known.error());
    co_return place;
  }
  arguments.erase("sandbox");
  if (call.home) co_return co_await call.services.homes.enter(call.home, call.caller);
  if (tool.makes_sandbox) co_return co_await call.services.homes.make_one(call.caller);
  co_return bad_field("sandbox",
                      "arguments.sandbox: is missing: name the sandbox. run, run_code, start and "
                      "write make one when none is named, and tell its id");
}

json::object shaped(const Call& call, ToolAnswer answer, const Place& place) {
  answer.structured["sandbox"] = place.sandbox;
  const std::string note = note_of(call, place);
  if (!note.empty()) answer.structured["note"] = note;
  if (answer.text.empty()) {
    answer.text = doors::json_text(answer.structured);
  } else if (!note.empty()) {
    answer.text += "\n" + note;
  }
  json::object out;
  json::array parts{content(std::move(answer.text))};
  for (json::value& picture : answer.pictures) parts.push_back(std::move(picture));
  out["content"] = std::move(parts);
  out["structuredContent"] = std::move(answer.structured);
  out["isError"] = false;
  return out;
}

}  // namespace

awaitable<Answer> call_tool(Call& call) {
  json::object& params = call.message.params;
  const json::value* name = params.if_contains("name");
  if (name == nullptr || !name->is_string())
    co_return std::unexpected(RpcError{kInvalidParams, "params.name is missing", {}, 400});
  const auto all = tools();
  const auto tool = std::ranges::find(all, std::string_view(name->get_string()), &Tool::name);
  if (tool == all.end())
    co_return std::unexpected(
        RpcError{kInvalidParams,
                 fmt::format("Unknown tool: {}",
                             doors::lossy_utf8(doors::cut_utf8(name->get_string(), 128))),
                 {}});
  json::object arguments;
  if (json::value* given = params.if_contains("arguments"); given != nullptr) {
    if (!given->is_object())
      co_return std::unexpected(
          RpcError{kInvalidParams, "params.arguments is not an object", {}, 400});
    arguments = std::move(given->get_object());
  }
  if (!call.caller.may(tool->need)) {
    call.services.access.denied(call.caller, fmt::format("mcp {}", tool->name));
    const Error error{Errc::Denied,
                      fmt::format("{} needs a token with the scope \"{}\"", tool->name,
                                  doors::scope_word(tool->need)),
                      0};
    co_return failed(call, error);
  }
  auto place = co_await place_of(call, *tool, arguments);
  if (!place) co_return failed(call, place.error());
  ToolCall one{call, place->sandbox, std::move(arguments)};
  auto answer = co_await tool->run(one);
  if (!answer) co_return failed(call, answer.error());
  co_return shaped(call, *std::move(answer), *place);
}

awaitable<Result<ToolAnswer>> pass_on(ToolCall& call, std::string_view tool) {
  auto answer = co_await call.fleet().execute_tool(call.caller(), call.sandbox, std::string(tool),
                                                   std::move(call.arguments), {});
  if (!answer) co_return std::unexpected(answer.error());
  co_return ToolAnswer{*std::move(answer), {}};
}

awaitable<void> tell_progress(Call& call, std::string what) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  boost::system::error_code cancelled;
  const json::value* asked = meta_of(call.message, "progressToken");
  const bool good =
      asked != nullptr && (asked->is_int64() || asked->is_uint64() ||
                           (asked->is_string() && asked->get_string().size() <= kTokenBytesMax));
  const json::value token = good ? *asked : json::value();
  const TimePoint begun = Clock::now();
  for (;;) {
    if (good) {
      timer.expires_after(call.options().progress_every);
    } else {
      timer.expires_at(TimePoint::max());
    }
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    if (cancelled) co_return;
    const auto passed = duration_cast<milliseconds>(Clock::now() - begun);
    const double seconds = static_cast<double>(passed.count()) / 1000;
    std::string text = notification_text(
        "notifications/progress",
        {{"progressToken", token},
         {"progress", seconds},
         {"message", fmt::format("{} has been running for {:.0f} s", what, seconds)}});
    call.lines.notify(std::move(text));
  }
}

}  // namespace caisson::mcp
