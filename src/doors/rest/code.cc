// Code in interpreters that wait for it, and the contexts in which it keeps its state.
#include "doors/rest/code.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/this_coro.hpp>
#include <limits>

#include "base/base64.h"
#include "doors/rest/handlers.h"
#include "doors/rest/json_pieces.h"
#include "doors/rest/running.h"
#include "doors/rest/sse.h"
#include "doors/rest/text.h"
#include "doors/rest/wishes.h"

namespace caisson::rest {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

double milliseconds_of(microseconds time) { return static_cast<double>(time.count()) / 1000; }

// Counts where the pieces of a stream stand.
struct Offsets {
  std::uint64_t at[2] = {0, 0};
};

awaitable<Result<void>> send_piece(EventWriter& events, Offsets& offsets, bool error,
                                   std::string bytes) {
  control::OutputChunk chunk;
  chunk.error = error;
  chunk.offset = offsets.at[error ? 1 : 0];
  offsets.at[error ? 1 : 0] += bytes.size();
  json::object data{{"offset", chunk.offset}, {"lost", 0}, {"data", to_base64(bytes)}};
  co_return co_await events.send(error ? "stderr" : "stdout", "", std::move(data));
}

awaitable<Result<void>> pump_code(Call& call, EventWriter& events, control::CodeWish wish) {
  Offsets offsets;
  wish.sink = [&events, &offsets](bool error, std::string_view bytes) {
    return send_piece(events, offsets, error, std::string(bytes));
  };
  auto outcome = co_await call.fleet().run_code(call.caller, call.id(), std::move(wish));
  if (!outcome) co_return std::unexpected(outcome.error());
  json::object result = code_json(*std::move(outcome));
  co_return co_await events.send("result", "", std::move(result));
}

awaitable<Result<void>> code_events(Call& call, control::CodeWish wish) {
  auto ticket = call.services.streams.enter(call.caller.actor);
  if (!ticket) co_return std::unexpected(ticket.error());
  EventWriter events(call, co_await asio::this_coro::executor);
  if (auto begun = co_await events.begin(); begun)
    (void)co_await run_stream(call, events, pump_code(call, events, std::move(wish)));
  co_return Result<void>{};
}

awaitable<Result<void>> code_collected(Call& call, control::CodeWish wish) {
  using namespace asio::experimental::awaitable_operators;
  auto admit = admit_output(call);
  if (!admit) co_return std::unexpected(admit.error());
  wish.admit = std::move(*admit);
  // Control ends the run of a caller who left.
  auto first = co_await (call.fleet().run_code(call.caller, call.id(), std::move(wish)) ||
                         call.exchange.wait_for_hangup());
  if (first.index() != 0) {
    if (call.turn != nullptr) call.turn->broken_off(call.body_digest);
    call.exchange.close_after();
    co_return failure(Errc::Gone, "the caller hung up");
  }
  auto& outcome = std::get<0>(first);
  if (!outcome) co_return std::unexpected(outcome.error());
  call.hold().force(0);  // what it asked is used up, and what it came to is counted anew
  const json::object out = code_json(*std::move(outcome));
  co_return co_await answer(call, 200, out);
}

}  // namespace

json::object code_json(control::CodeOutcome outcome) {
  json::array outputs;
  for (control::CodeOutput& one : outcome.outputs)
    outputs.push_back(json::object{{"main", one.main}, {"data", std::move(one.data)}});
  json::value error;
  if (outcome.error)
    error = json::object{{"name", valid_utf8(outcome.error->name)},
                         {"value", valid_utf8(outcome.error->value)},
                         {"traceback", valid_utf8(outcome.error->traceback)}};
  json::array warnings;
  for (const std::string& one : outcome.warnings) warnings.emplace_back(valid_utf8(one));
  return json::object{
      {"exit_code", outcome.exit_code},
      {"value", outcome.value ? json::value(valid_utf8(*outcome.value)) : json::value(nullptr)},
      {"outputs", std::move(outputs)},
      {"outputs_truncated", outcome.outputs_truncated},
      {"error", std::move(error)},
      {"stdout", valid_utf8(outcome.out)},
      {"stderr", valid_utf8(outcome.err)},
      {"stdout_lost_bytes", outcome.out_lost},
      {"stderr_lost_bytes", outcome.err_lost},
      {"timed_out", outcome.timed_out},
      {"context_ended", outcome.context_ended},
      {"duration_ms", milliseconds_of(outcome.wall)},
      {"run_ms", milliseconds_of(outcome.ran)},
      {"warnings", std::move(warnings)}};
}

json::object to_json(const control::ContextView& view) {
  return json::object{{"id", view.id},
                      {"language", control::to_string(view.language)},
                      {"workdir", valid_utf8(view.workdir)},
                      {"created_at", store::to_rfc3339(view.created)},
                      {"busy", view.busy},
                      {"runs", view.runs}};
}

awaitable<Result<void>> run_code(Call& call) {
  if (const auto stream = query_text(call, "stream"); stream && *stream != "sse")
    co_return bad_field("stream", "stream is not \"sse\": there is no other");
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  auto wish = code_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  // What runs in a context is of its language, whatever else was said.
  if (query_text(call, "stream") || accepts_events(call))
    co_return co_await code_events(call, *std::move(wish));
  co_return co_await code_collected(call, *std::move(wish));
}

awaitable<Result<void>> create_context(Call& call) {
  auto body = co_await read_json(call, Body::Optional);
  if (!body) co_return std::unexpected(body.error());
  auto wish = context_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  auto made = co_await call.fleet().create_context(call.caller, call.id(), *std::move(wish));
  if (!made) co_return std::unexpected(made.error());
  call.exchange.set("Location", "/api/v1/sandboxes/" + call.id() + "/contexts/" + made->id);
  const json::object out = to_json(*made);
  co_return co_await answer(call, 201, out);
}

awaitable<Result<void>> list_contexts(Call& call) {
  auto views = co_await call.fleet().contexts(call.caller, call.id());
  if (!views) co_return std::unexpected(views.error());
  json::array list;
  for (const control::ContextView& one : *views) list.emplace_back(to_json(one));
  const json::object out{{"contexts", std::move(list)}};
  co_return co_await answer(call, 200, out);
}

awaitable<Result<void>> interrupt_context(Call& call) {
  if (auto nothing = co_await want_nothing(call); !nothing) co_return nothing;
  auto done = co_await call.fleet().interrupt_context(call.caller, call.id(), call.match.part);
  if (!done) co_return done;
  co_return co_await answer_nothing(call);
}

awaitable<Result<void>> remove_context(Call& call) {
  auto done = co_await call.fleet().remove_context(call.caller, call.id(), call.match.part);
  if (!done) co_return done;
  co_return co_await answer_nothing(call);
}

}  // namespace caisson::rest
