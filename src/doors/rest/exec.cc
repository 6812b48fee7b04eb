// Running a command for a caller who waits: collected, or as a stream of events.
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/this_coro.hpp>

#include "doors/rest/handlers.h"
#include "doors/rest/json_pieces.h"
#include "doors/rest/running.h"
#include "doors/rest/sse.h"
#include "doors/rest/states.h"
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

// `command` to its end, or until the caller hangs up: control kills the tree of a command that is
// cancelled, which is what a caller who left wants.
template <class T>
awaitable<Result<T>> while_connected(Call& call, awaitable<Result<T>> command) {
  using namespace asio::experimental::awaitable_operators;
  auto first = co_await (std::move(command) || call.exchange.wait_for_hangup());
  if (first.index() == 0) co_return std::get<0>(std::move(first));
  if (call.turn != nullptr) call.turn->broken_off(call.body_digest);
  call.exchange.close_after();
  co_return failure(Errc::Gone, "the caller hung up");
}

// What was held for the command is given back step by step, so that nothing is counted twice.
awaitable<Result<void>> answer_outcome(Call& call, control::ExecOutcome outcome, bool base64,
                                       std::string sandbox) {
  call.hold().force(0);  // its input is used up, and what it wrote is counted anew
  json::object out = fitting_json(call, outcome, base64);
  if (!sandbox.empty()) out["sandbox"] = std::move(sandbox);
  outcome = control::ExecOutcome{};
  call.hold().force(0);  // the answer counts itself
  co_return co_await answer(call, 200, out);
}

awaitable<Result<void>> exec_collected(Call& call, ExecBody body) {
  auto admit = admit_output(call);
  if (!admit) co_return std::unexpected(admit.error());
  body.wish.admit = std::move(*admit);
  auto outcome = co_await while_connected(
      call, call.fleet().exec(call.caller, call.id(), std::move(body.wish)));
  if (!outcome) co_return std::unexpected(outcome.error());
  co_return co_await answer_outcome(call, *std::move(outcome), body.base64, {});
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

awaitable<Result<void>> run_once(Call& call) {
  if (!call.caller.may(store::Scope::Use))
    co_return failure(Errc::Denied,
                      "a run is a create and an exec: this token lacks the scope use");
  auto json = co_await read_json(call, Body::Required);
  if (!json) co_return std::unexpected(json.error());
  auto body = run_wish(*json);
  if (!body) co_return std::unexpected(body.error());
  if (body->sandbox.snapshot) body->sandbox.snapshot = snapshot_id(call, *body->sandbox.snapshot);
  auto admit = admit_output(call);
  if (!admit) co_return std::unexpected(admit.error());
  body->exec.wish.admit = std::move(*admit);
  auto once = co_await while_connected(
      call,
      call.fleet().run_once(call.caller, std::move(body->sandbox), std::move(body->exec.wish)));
  if (!once) co_return std::unexpected(once.error());
  co_return co_await answer_outcome(call, std::move(once->outcome), body->exec.base64,
                                    std::move(once->sandbox));
}

}  // namespace caisson::rest
