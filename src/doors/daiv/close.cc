// Is it there, and close it.
#include <fmt/format.h>

#include "doors/daiv/egress.h"
#include "doors/daiv/schema.h"
#include "doors/daiv/sessions.h"

namespace caisson::daiv {

namespace json = boost::json;

namespace {

constexpr std::int64_t kMicros = 1'000'000;

// `force` of the query; nothing when it is not there.
Result<std::optional<bool>> wanted_force(Call& call) {
  const auto query = http::parse_query(call.request().query);
  if (!query) return refuse(call, 400, "The query is malformed");
  Problems problems;
  std::optional<bool> force;
  for (const auto& [name, value] : *query) {
    if (name != "force") continue;
    force = read_flag(json::value(value), json::array{"query", "force"}, problems);
    if (!problems.empty()) return refuse(call, problems);
  }
  return force;
}

// The older clients never send the parameter and mean the end; the newer ones always do.
bool removes(const Session& session, std::optional<bool> force, const DaivOptions& options) {
  if (force) return *force;
  return options.close_removes || session.has(kOlderApiLabel);
}

awaitable<Result<void>> remove(Call& call, Session& session) {
  auto done = co_await call.fleet().destroy(call.caller, session.view.id);
  if (!done && done.error().code != Errc::NotFound) co_return done;
  co_await drop_secrets(call.services, call.caller, session.view);
  session.forget();
  co_return co_await answer_nothing(call);
}

// Where files do not outlive a stop, its processes hold still and its files stay in memory.
awaitable<Result<void>> stop(Call& call, Session& session) {
  const auto failed = [&](const Error& error) -> std::unexpected<Error> {
    if (call.options().on_failure) call.options().on_failure(call.request().id, error);
    return refuse(call, 503, fmt::format("Session '{}' could not be stopped", call.id()));
  };
  const bool runs = !is_stopped(session.view);
  if (runs) {
    const bool keeps = session.view.persistent;
    auto stopped = keeps ? co_await call.fleet().stop_sandbox(call.caller, session.view.id)
                         : co_await call.fleet().pause(call.caller, session.view.id);
    if (!stopped) co_return failed(stopped.error());
    session.view = *std::move(stopped);
  }
  if (runs || !session.has(kStoppedLabel)) {
    std::string now = std::to_string(call.options().wall() / kMicros);
    auto told = co_await set_label(call, session, kStoppedLabel, std::move(now));
    if (!told) co_return failed(told.error());
  }
  session.forget();
  co_return co_await answer_nothing(call);
}

}  // namespace

awaitable<Result<void>> show_session(Call& call) {
  auto session = co_await enter(call, Wake::Yes);
  if (!session) co_return std::unexpected(session.error());
  co_return co_await answer_nothing(call);
}

awaitable<Result<void>> close_session(Call& call) {
  const auto force = wanted_force(call);
  if (!force) co_return std::unexpected(force.error());
  auto session = co_await enter(call, Wake::No);
  if (!session && call.refusal && call.refusal->status == 404) {
    call.refusal.reset();
    co_return co_await answer_nothing(call);  // it is as closed as it can be
  }
  if (!session) co_return std::unexpected(session.error());
  if (removes(*session, *force, call.options())) co_return co_await remove(call, *session);
  co_return co_await stop(call, *session);
}

}  // namespace caisson::daiv
