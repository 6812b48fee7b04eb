// Output of a process from any offset on. The id of each event is where both streams stand behind
// it, so that a client who was cut off sends it back and misses nothing.
#include <fmt/format.h>

#include <boost/asio/this_coro.hpp>

#include "doors/rest/handlers.h"
#include "doors/rest/sse.h"
#include "doors/rest/views.h"

namespace caisson::rest {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr std::uint64_t kOffsetMax = 9'007'199'254'740'991;

struct Offsets {
  std::uint64_t out = 0;
  std::uint64_t err = 0;
};

Result<Offsets> offsets_of(const Call& call) {
  const std::string_view last = call.request().field("Last-Event-ID");
  if (!last.empty()) {
    const auto dash = std::min(last.find('-'), last.size());
    const auto out = TRY(whole_number("Last-Event-ID", last.substr(0, dash), 0, kOffsetMax));
    const auto rest = last.substr(std::min(dash + 1, last.size()));
    const auto err = TRY(whole_number("Last-Event-ID", rest, 0, kOffsetMax));
    return Offsets{*out, *err};
  }
  const auto out = TRY(query_integer(call, "stdout_offset", 0, kOffsetMax));
  const auto err = TRY(query_integer(call, "stderr_offset", 0, kOffsetMax));
  return Offsets{out.value_or(0), err.value_or(0)};
}

awaitable<Result<void>> pump(EventWriter& events, control::OutputStream& output, Offsets at) {
  for (;;) {
    auto item = co_await output.next();
    if (!item) co_return std::unexpected(item.error());
    const auto* chunk = std::get_if<control::OutputChunk>(&*item);
    if (chunk != nullptr) (chunk->error ? at.err : at.out) = chunk->offset + chunk->bytes.size();
    std::string id = fmt::format("{}-{}", at.out, at.err);
    if (chunk == nullptr) {
      json::object exit = exit_json(std::get<control::ProcessView>(*item));
      co_return co_await events.send("exit", std::move(id), std::move(exit));
    }
    json::object data = to_json(*chunk);
    auto sent =
        co_await events.send(chunk->error ? "stderr" : "stdout", std::move(id), std::move(data));
    if (!sent) co_return sent;
  }
}

}  // namespace

awaitable<Result<void>> stream_output(Call& call) {
  const auto process = process_of(call);
  if (!process) co_return std::unexpected(process.error());
  const auto at = offsets_of(call);
  if (!at) co_return std::unexpected(at.error());
  auto ticket = call.services.streams.enter(call.caller.actor);
  if (!ticket) co_return std::unexpected(ticket.error());
  auto output = co_await call.fleet().attach(call.caller, call.id(), *process, at->out, at->err);
  if (!output) co_return std::unexpected(output.error());
  EventWriter events(call, co_await asio::this_coro::executor);
  if (auto begun = co_await events.begin(); !begun) co_return begun;
  (void)co_await run_stream(call, events, pump(events, **output, *at));
  co_return Result<void>{};
}

}  // namespace caisson::rest
