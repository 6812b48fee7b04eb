// What happens, as it happens: changes of files, and the lives of sandboxes.
#include <boost/asio/this_coro.hpp>

#include "doors/rest/handlers.h"
#include "doors/rest/sse.h"
#include "doors/rest/views.h"

namespace caisson::rest {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr std::uint64_t kSequenceMax = 9'007'199'254'740'991;

awaitable<Result<void>> pump_changes(EventWriter& events, control::WatchStream& changes) {
  for (;;) {
    auto change = co_await changes.next();
    if (!change) co_return std::unexpected(change.error());
    if (change->mask == 0) continue;  // it began, which was said already
    json::object data = to_json(*change);
    auto sent = co_await events.send("change", "", std::move(data));
    if (!sent) co_return sent;
  }
}

awaitable<Result<void>> pump_events(EventWriter& events, control::EventStream& stream) {
  for (;;) {
    auto event = co_await stream.next();
    if (!event) co_return std::unexpected(event.error());
    json::object data = to_json(*event);
    auto sent = co_await events.send(event->type, std::to_string(event->sequence), std::move(data));
    if (!sent) co_return sent;
  }
}

Result<std::uint64_t> after_of(const Call& call) {
  const std::string_view last = call.request().field("Last-Event-ID");
  const auto after = TRY(last.empty() ? query_integer(call, "after", 0, kSequenceMax)
                                      : whole_number("Last-Event-ID", last, 0, kSequenceMax));
  return after.value_or(0);
}

}  // namespace

awaitable<Result<void>> watch_files(Call& call) {
  const auto path = folder_path(call);
  if (!path) co_return std::unexpected(path.error());
  const auto recursive = query_flag(call, "recursive", false);
  if (!recursive) co_return std::unexpected(recursive.error());
  auto ticket = call.services.streams.enter(call.caller.actor);
  if (!ticket) co_return std::unexpected(ticket.error());
  auto changes = co_await call.fleet().watch(call.caller, call.id(), *path, *recursive);
  if (!changes) co_return std::unexpected(changes.error());
  EventWriter events(call, co_await asio::this_coro::executor);
  if (auto begun = co_await events.begin(); !begun) co_return begun;
  // From here on nothing is missed.
  json::object nothing;
  if (auto sent = co_await events.send("ready", "", std::move(nothing)); !sent) co_return sent;
  (void)co_await run_stream(call, events, pump_changes(events, **changes));
  co_return Result<void>{};
}

awaitable<Result<void>> stream_events(Call& call) {
  const auto after = after_of(call);
  if (!after) co_return std::unexpected(after.error());
  std::optional<std::string> sandbox;
  if (const auto text = query_text(call, "sandbox")) {
    sandbox = std::string(*text);
    // One that is foreign or never was is not found, as everywhere.
    if (auto known = call.fleet().get(call.caller, *sandbox); !known) {
      co_return std::unexpected(known.error());
    }
  }
  auto ticket = call.services.streams.enter(call.caller.actor);
  if (!ticket) co_return std::unexpected(ticket.error());
  auto stream = call.fleet().events(call.caller, sandbox, *after);
  if (!stream) co_return std::unexpected(stream.error());
  EventWriter events(call, co_await asio::this_coro::executor);
  if (auto begun = co_await events.begin(); !begun) co_return begun;
  (void)co_await run_stream(call, events, pump_events(events, **stream));
  co_return Result<void>{};
}

}  // namespace caisson::rest
