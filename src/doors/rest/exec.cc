// Running a command for a caller who waits: collected, or as a stream of events.
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/this_coro.hpp>

#include "doors/rest/handlers.h"
#include "doors/rest/json_pieces.h"
#include "doors/rest/running.h"
#include "doors/rest/sse.h"
#include "doors/rest/views.h"
#include "doors/rest/wishes.h"

namespace caisson::rest {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

awaitable<Result<void>> pump_output(EventWriter& events, RunningCommand& command) {
  json::object start;
  start["process"] = command.view.id;
  start["pid"] = command.view.pid;
  if (auto sent = co_await events.send("start", "", std::move(start)); !sent) co_return sent;
  for (;;) {
    auto item = co_await command.output->next();
    if (!item) co_return std::unexpected(item.error());
    if (const auto* end = std::get_if<control::ProcessView>(&*item)) {
      json::object exit = exit_json(*end);
      co_return co_await events.send("exit", "", std::move(exit));
    }
    const auto& chunk = std::get<control::OutputChunk>(*item);
    json::object data = to_json(chunk);
    auto sent = co_await events.send(chunk.error ? "stderr" : "stdout", "", std::move(data));
    if (!sent) co_return sent;
  }
}

// A command need not read what it was given: then the write fails, and that is no failure.
awaitable<void> feed(Call& call, std::uint32_t process, std::string input) {
  (void)co_await call.fleet().write_input(call.caller, call.id(), process, std::move(input), true);
  co_await wait_for_ever();
}

awaitable<Result<void>> pump_and_feed(Call& call, EventWriter& events, RunningCommand& command,
                                      std::string input) {
  using namespace asio::experimental::awaitable_operators;
  if (input.empty()) co_return co_await pump_output(events, command);
  const auto first =
      co_await (pump_output(events, command) || feed(call, command.view.id, std::move(input)));
  if (first.index() == 0) co_return std::get<0>(first);
  co_return Result<void>{};
}

awaitable<Result<void>> exec_events(Call& call, control::ExecWish wish) {
  auto ticket = call.services.streams.enter(call.caller.actor);
  if (!ticket) co_return std::unexpected(ticket.error());
  std::string input = std::move(wish.input);
  control::ProcessWish process;
  process.exec = std::move(wish);
  process.exec.input.clear();
  process.input = !input.empty();
  auto command = co_await start_attached(call, std::move(process));
  if (!command) co_return std::unexpected(command.error());
  EventWriter events(call, co_await asio::this_coro::executor);
  if (auto begun = co_await events.begin(); begun) {
    (void)co_await run_stream(call, events,
                              pump_and_feed(call, events, *command, std::move(input)));
  }
  command->output.reset();
  co_await end_command(call, command->view.id);
  co_return Result<void>{};
}

// The command has run, so the caller is told how it ended, whatever room there is. Output for which
// there is none as JSON is cut, and counted as lost like all that a command wrote beyond its limit.
json::object fitting_json(Call& call, control::ExecOutcome& outcome, bool base64) {
  json::object out = to_json(outcome, base64);
  if (call.hold().overdraw(weight(out))) return out;
  // Two streams, and a byte that is no UTF-8 becomes three.
  const std::size_t each = std::max<std::size_t>(call.hold().room(2) / 8, control::kOutputBytesMin);
  const auto cut = [each](std::string& bytes, std::uint64_t& lost) {
    if (bytes.size() <= each) return;
    lost += bytes.size() - each;
    bytes.resize(each);
    bytes.shrink_to_fit();
  };
  cut(outcome.out, outcome.out_lost);
  cut(outcome.err, outcome.err_lost);
  out = to_json(outcome, base64);
  return out;
}

awaitable<Result<void>> exec_collected(Call& call, ExecBody body) {
  using namespace asio::experimental::awaitable_operators;
  auto admit = admit_output(call);
  if (!admit) co_return std::unexpected(admit.error());
  body.wish.admit = std::move(*admit);
  // Control kills the tree of an exec that is cancelled, which is what a caller who left wants.
  auto first = co_await (call.fleet().exec(call.caller, call.id(), std::move(body.wish)) ||
                         call.exchange.wait_for_hangup());
  if (first.index() != 0) {
    if (call.turn != nullptr) call.turn->broken_off(call.body_digest);
    call.exchange.close_after();
    co_return failure(Errc::Gone, "the caller hung up");
  }
  auto& outcome = std::get<0>(first);
  if (!outcome) co_return std::unexpected(outcome.error());
  call.hold().force(0);  // its input is used up, and what it wrote is counted anew
  const json::object out = fitting_json(call, *outcome, body.base64);
  *outcome = control::ExecOutcome{};
  call.hold().force(0);  // the answer counts itself
  co_return co_await answer(call, 200, out);
}

}  // namespace

awaitable<Result<void>> exec(Call& call) {
  if (const auto stream = query_text(call, "stream"); stream && *stream != "sse") {
    co_return bad_field("stream", "stream is not \"sse\": there is no other");
  }
  auto json = co_await read_json(call, Body::Required);
  if (!json) co_return std::unexpected(json.error());
  auto body = exec_wish(*json, Input::InBody);
  if (!body) co_return std::unexpected(body.error());
  if (query_text(call, "stream") || accepts_events(call))
    co_return co_await exec_events(call, std::move(body->wish));
  co_return co_await exec_collected(call, std::move(*body));
}

}  // namespace caisson::rest
