#include "control/row_budget.h"

#include <fmt/format.h>

#include <algorithm>

namespace caisson::control {
namespace {

constexpr seconds kWindow{60};
// What a row takes besides its text: two hashes, numbers, and its place in the indexes.
constexpr std::uint64_t kRowBytes = 300;

std::uint64_t bytes_of(const store::AuditEvent& row) {
  return kRowBytes + row.tenant.size() + row.actor.size() + row.action.size() + row.sandbox.size() +
         row.object.size() + row.detail.size() + row.request_id.size();
}

store::AuditEvent limit_row(std::string tenant, std::string sandbox, std::uint64_t count) {
  store::AuditEvent event;
  event.tenant = std::move(tenant);
  event.sandbox = std::move(sandbox);
  event.actor = "server";
  event.action = "audit.limit";
  event.outcome = store::Outcome::Denied;
  event.detail = fmt::format(R"({{"calls_turned_away":{}}})", count);
  return event;
}

}  // namespace

void RowBudget::forget_old(TimePoint now) {
  std::erase_if(payers_, [now](const auto& one) {
    return one.second.untold == 0 && now - one.second.begin >= kWindow;
  });
}

RowBudget::Minute& RowBudget::find(const Payer& payer, TimePoint now) {
  auto at = payers_.find(payer);
  if (at == payers_.end()) {
    if (payers_.size() >= kBudgetTenantsMax) forget_old(now);
    at = payers_.emplace(payer, Minute{.begin = now}).first;
  }
  Minute& minute = at->second;
  if (now - minute.begin >= kWindow) minute = Minute{.begin = now, .untold = minute.untold};
  return minute;
}

RowBudget::Verdict RowBudget::judge(std::string_view tenant, const Limits& limits, TimePoint now) {
  return judge(Payer{std::string(tenant)}, limits, now);
}

RowBudget::Verdict RowBudget::judge_guest(std::string_view tenant, std::string_view sandbox,
                                          const Limits& tenants, TimePoint now) {
  const auto share = [](std::uint64_t own, std::uint64_t all) {
    return all == 0 ? own : std::min(own, all);
  };
  const Limits limits{.bytes = share(kGuestAuditBytesPerMinute, tenants.bytes),
                      .refusals = share(kGuestAuditRefusalsPerMinute, tenants.refusals)};
  return judge(Payer{std::string(tenant), std::string(sandbox)}, limits, now);
}

RowBudget::Verdict RowBudget::judge(const Payer& payer, const Limits& limits, TimePoint now) {
  Minute& minute = find(payer, now);
  Verdict out;
  const bool over = (limits.bytes != 0 && minute.bytes >= limits.bytes) ||
                    (limits.refusals != 0 && minute.refusals >= limits.refusals);
  if (over) {
    ++minute.untold;
    out.wait = std::chrono::ceil<seconds>(kWindow - (now - minute.begin));
  }
  if (minute.untold > 0 && !minute.told) {
    out.row = limit_row(payer.tenant, payer.sandbox, minute.untold);
    minute.untold = 0;
    minute.told = true;
  }
  return out;
}

void RowBudget::charge(const store::AuditEvent& row, TimePoint now) {
  if (row.tenant.empty()) return;
  Payer payer{row.tenant};
  if (row.actor == kGuestActor) payer.sandbox = row.sandbox;
  Minute& minute = find(payer, now);
  minute.bytes += bytes_of(row);
  if (row.outcome != store::Outcome::Allowed) ++minute.refusals;
}

}  // namespace caisson::control
