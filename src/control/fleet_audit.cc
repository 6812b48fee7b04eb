// The audit row of each call, and the record of a sandbox.
#include "control/await_store.h"
#include "control/fleet_impl.h"
#include "control/text.h"
#include "policy/json_text.h"

namespace caisson::control {
namespace {

constexpr std::size_t kMessageBytesMax = 1024;

}  // namespace

Audited::Audited(FleetImpl& fleet, store::AuditEvent event)
    : row(std::move(event)), fleet_(fleet.alive()) {
  row.outcome = store::Outcome::Failed;
}

void Audited::judge(const Error* error) {
  if (error == nullptr) {
    row.outcome = store::Outcome::Allowed;
  } else {
    const bool refused = error->code == Errc::Denied || error->code == Errc::Unsupported;
    row.outcome = refused ? store::Outcome::Denied : store::Outcome::Failed;
    detail["error"] = to_string(error->code);
    detail["message"] = cut_text(error->message, kMessageBytesMax);
  }
  if (!detail.empty()) row.detail = policy::json_text(detail);
}

Audited::~Audited() {
  const auto fleet = fleet_.lock();
  if (written_ || !fleet) return;
  if (row.detail.empty()) {
    detail["error"] = "Abandoned";
    row.detail = policy::json_text(detail);
  }
  store::Store::Batch batch;
  batch.audit.push_back(std::move(row));
  (*fleet)->post(std::move(batch));
}

store::AuditEvent FleetImpl::row(const Caller& caller, std::string action, std::string sandbox,
                                 std::string object) const {
  store::AuditEvent event;
  event.tenant = caller.tenant;
  event.actor = caller.actor;
  event.action = std::move(action);
  event.sandbox = std::move(sandbox);
  event.object = cut_text(object, kAuditTextBytesMax);
  event.request_id = caller.request_id;
  return event;
}

store::AuditEvent FleetImpl::own_row(const Sandbox& sandbox, std::string actor, std::string action,
                                     std::string object) const {
  store::AuditEvent event;
  event.tenant = sandbox.tenant;
  event.actor = std::move(actor);
  event.action = std::move(action);
  event.sandbox = sandbox.id;
  event.object = cut_text(object, kAuditTextBytesMax);
  return event;
}

// The writer's thread calls back; whether it worked is seen by the next call that waits for a row.
void FleetImpl::post(store::Store::Batch batch) {
  store_.write(std::move(batch), [](const Result<void>&) {});
}

awaitable<Result<void>> FleetImpl::record(store::Store::Batch batch) {
  auto written = co_await commit(store_, std::move(batch));
  store_failed_ = !written;
  if (!written) co_return std::unexpected(written.error().within("audit"));
  co_return Result<void>();
}

awaitable<Result<void>> FleetImpl::store_works() {
  if (!store_failed_) co_return Result<void>();
  store::AuditEvent event;
  event.actor = "server";
  event.action = "audit.resume";
  store::Store::Batch batch;
  batch.audit.push_back(std::move(event));
  co_return co_await record(std::move(batch));
}

store::SandboxRecord FleetImpl::stored(const Sandbox& sandbox) const {
  store::SandboxRecord record;
  record.id = sandbox.id;
  record.tenant = sandbox.tenant;
  record.token = sandbox.token;
  record.created = sandbox.created;
  record.spec = to_json(sandbox.kept);
  if (sandbox.state == State::Ended) {
    record.state = store::RecordState::Ended;
    record.ended = store::wall_now();
    record.end_reason = sandbox.end_reason;
  }
  return record;
}

Error FleetImpl::explain(const Sandbox& sandbox, const Error& error) const {
  if (sandbox.state != State::Ended) return error;
  return Error{Errc::Gone, "sandbox '" + sandbox.id + "' ended: " + sandbox.end_reason, 0};
}

}  // namespace caisson::control
