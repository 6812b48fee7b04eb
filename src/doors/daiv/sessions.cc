#include "doors/daiv/sessions.h"

#include <fmt/format.h>

namespace caisson::daiv {

bool has_label(const control::SandboxView& view, std::string_view label) {
  return view.labels.contains(std::string(label));
}

bool is_session(const control::SandboxView& view) {
  const auto at = view.labels.find(std::string(kTypeLabel));
  return at != view.labels.end() && at->second == kTypeSession;
}

bool is_stopped(const control::SandboxView& view) {
  return view.state == control::State::Stopped ||
         (view.state == control::State::Paused && has_label(view, kStoppedLabel));
}

Result<control::SandboxView> find_session(control::Fleet& fleet, const control::Caller& caller,
                                          const std::string& id) {
  control::SandboxView view = TRY(fleet.get(caller, id));
  if (!is_session(view) || view.state == control::State::Ended)
    return failure(Errc::NotFound, "no such session");
  return view;
}

Session::Session(Services& services, control::SandboxView seen,
                 std::unique_ptr<control::SessionTurn> turn)
    : view(std::move(seen)), services_(&services), turn_(std::move(turn)) {
  services_->activity.touch(view.id, services_->options.now());
}

Session::~Session() {
  if (turn_) services_->activity.touch(view.id, services_->options.now());
}

void Session::forget() {
  services_->activity.forget(view.id);
  turn_.reset();
}

namespace {

std::unexpected<Error> not_restarted(Call& call) {
  return refuse(call, 503, fmt::format("Session '{}' could not be restarted", call.id()));
}

// What a stopped one needs before anybody works in it.
awaitable<Result<void>> wake_up(Call& call, Session& session, std::string_view missing) {
  const control::State state = session.view.state;
  if (state != control::State::Running) {
    auto started = state == control::State::Stopped
                       ? co_await call.fleet().start_sandbox(call.caller, call.id())
                       : co_await call.fleet().resume(call.caller, call.id());
    if (!started && started.error().code == Errc::NotFound) co_return refuse(call, 404, missing);
    if (!started) co_return not_restarted(call);
    session.view = *std::move(started);
  }
  // It may also have been started by another door.
  if (!session.has(kStoppedLabel)) co_return Result<void>{};
  if (auto done = co_await set_label(call, session, kStoppedLabel, ""); !done)
    co_return not_restarted(call);
  co_return Result<void>{};
}

}  // namespace

awaitable<Result<Session>> enter(Call& call, Wake wake, std::string_view missing) {
  // Looked up before and after the wait: who has no session does not wait, and what was closed
  // meanwhile is gone.
  auto before = find_session(call.fleet(), call.caller, call.id());
  if (!before && before.error().code == Errc::NotFound) co_return refuse(call, 404, missing);
  if (!before) co_return std::unexpected(before.error());
  auto turn = co_await call.fleet().session_turn(call.caller, call.id(), call.options().lock_wait);
  if (!turn && turn.error().code == Errc::NotFound) co_return refuse(call, 404, missing);
  if (!turn && turn.error().code == Errc::Busy) co_return refuse(call, 409, "Session is busy");
  if (!turn) co_return std::unexpected(turn.error());
  auto view = find_session(call.fleet(), call.caller, call.id());
  if (!view && view.error().code == Errc::NotFound) co_return refuse(call, 404, missing);
  if (!view) co_return std::unexpected(view.error());
  Session session(call.services, *std::move(view), *std::move(turn));
  if (wake == Wake::Yes) {
    if (auto awake = co_await wake_up(call, session, missing); !awake)
      co_return std::unexpected(awake.error());
  }
  co_return session;
}

awaitable<Result<void>> set_label(Call& call, Session& session, std::string_view label,
                                  std::string value) {
  std::map<std::string, std::string> labels{{std::string(label), std::move(value)}};
  auto changed = co_await call.fleet().set_labels(call.caller, session.view.id, std::move(labels));
  if (!changed) co_return std::unexpected(changed.error());
  session.view = *std::move(changed);
  co_return Result<void>{};
}

}  // namespace caisson::daiv
