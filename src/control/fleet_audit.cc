// The audit row of each call, and the record of a sandbox.
#include <fmt/format.h>

#include <algorithm>

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
    // Nothing was done, and to be refused costs the caller nothing: neither may the row cost much.
    row.object = cut_text(row.object, kRefusedTextBytesMax);
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
                                 const std::string& object) const {
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
                                     const std::string& object) const {
  store::AuditEvent event;
  event.tenant = sandbox.tenant;
  event.actor = std::move(actor);
  event.action = std::move(action);
  event.sandbox = sandbox.id;
  event.object = cut_text(object, kAuditTextBytesMax);
  return event;
}

// Nobody waits for it. The store counts what it could not write, and store_works() sees that.
void FleetImpl::post(store::Store::Batch batch) {
  for (const store::AuditEvent& event : batch.audit) budget_.charge(event, Clock::now());
  store_.write(std::move(batch), [](const Result<void>&) {});
}

awaitable<Result<void>> FleetImpl::record(store::Store::Batch batch) {
  for (const store::AuditEvent& event : batch.audit) budget_.charge(event, Clock::now());
  auto written = co_await commit(store_, std::move(batch));
  store_failed_ = !written;
  if (!written) co_return std::unexpected(written.error().within("audit"));
  co_return Result<void>();
}

bool FleetImpl::rows_missing() const {
  return store_failed_ || store_.counters().unwritten > unwritten_told_;
}

awaitable<Result<void>> FleetImpl::store_works() {
  if (!rows_missing()) co_return Result<void>();
  const std::uint64_t unwritten = store_.counters().unwritten;
  store::AuditEvent event;
  event.actor = "server";
  event.action = "audit.resume";
  event.detail =
      policy::json_text(boost::json::object{{"unwritten_rows", unwritten - unwritten_told_}});
  store::Store::Batch batch;
  batch.audit.push_back(std::move(event));
  auto written = co_await record(std::move(batch));
  if (written) {
    unwritten_told_ = std::max(unwritten_told_, unwritten);
  } else {
    ++unwritten_told_;  // this row told of others, and is itself no loss
  }
  co_return written;
}

Result<void> FleetImpl::within_budget(Audited& audit) {
  const RowBudget::Limits limits{.bytes = options_.audit_bytes_per_minute,
                                 .refusals = options_.audit_refusals_per_minute};
  auto verdict =
      audit.row.actor == kGuestActor
          ? budget_.judge_guest(audit.row.tenant, audit.row.sandbox, limits, Clock::now())
          : budget_.judge(audit.row.tenant, limits, Clock::now());
  if (verdict.row) {
    store::Store::Batch batch;
    batch.audit.push_back(*std::move(verdict.row));
    post(std::move(batch));
  }
  if (verdict.wait == seconds(0)) return {};
  audit.written();  // it is counted in the row about the limit
  return failure(Errc::Exhausted,
                 fmt::format("the audit takes no more of this tenant in this minute: try again in "
                             "{} seconds",
                             verdict.wait.count()));
}

awaitable<Result<void>> FleetImpl::store_works(Audited& audit) {
  if (const auto may = within_budget(audit); !may) co_return std::unexpected(may.error());
  co_return co_await store_works();
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
  } else if (sandbox.once) {
    // A server that comes after us must not take it for one that goes on.
    record.state = store::RecordState::Ended;
    record.ended = store::wall_now();
    record.end_reason = "the server ended while its only command ran";
  } else if (sandbox.state == State::Stopped || sandbox.leaving) {
    record.state = store::RecordState::Stopped;
    record.end_reason = sandbox.end_reason;
  }
  return record;
}

Error FleetImpl::explain(const Sandbox& sandbox, const Error& error) const {
  if (sandbox.state == State::Stopped && (error.code == Errc::Gone || error.message.empty()))
    return Error{Errc::Gone, "sandbox '" + sandbox.id + "' was stopped: " + sandbox.end_reason, 0};
  if (sandbox.state != State::Ended) return error;
  return Error{Errc::Gone, "sandbox '" + sandbox.id + "' ended: " + sandbox.end_reason, 0};
}

}  // namespace caisson::control
