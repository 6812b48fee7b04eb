#include "doors/mcp/sessions.h"

#include <vector>

#include "base/id.h"

namespace caisson::mcp {

Result<std::shared_ptr<Session>> Sessions::open(const control::Caller& caller,
                                                std::string_view version) {
  auto seat = seats_.take(caller.actor);
  if (!seat) {
    sweep();
    seat = seats_.take(caller.actor);
  }
  if (!seat) return std::unexpected(seat.error());
  auto session = std::make_shared<Session>(*std::move(seat), homes_.make());
  session->id = TRY(SandboxId::random()).str();
  session->actor = caller.actor;
  session->tenant = caller.tenant;
  session->version = version;
  session->last_use = options_.now();
  sessions_.emplace(session->id, session);
  return session;
}

std::shared_ptr<Session> Sessions::find(const control::Caller& caller, std::string_view id) {
  const auto at = sessions_.find(id);
  if (at == sessions_.end()) return nullptr;
  Session& session = *at->second;
  if (session.actor != caller.actor || session.tenant != caller.tenant) return nullptr;
  session.last_use = options_.now();
  return at->second;
}

void Sessions::close(const std::shared_ptr<Session>& session) {
  session->underway.cancel_all();
  homes_.leave(session->home);
  sessions_.erase(session->id);
}

void Sessions::sweep() {
  const TimePoint old = options_.now() - options_.session_idle;
  std::vector<std::shared_ptr<Session>> idle;
  for (const auto& [id, session] : sessions_) {
    const bool used = session->streams > 0 || session->underway.size() > 0;
    if (!used && session->last_use < old) idle.push_back(session);
  }
  for (const auto& session : idle) close(session);
}

}  // namespace caisson::mcp
