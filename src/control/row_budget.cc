#include "control/row_budget.h"

#include <fmt/format.h>

namespace caisson::control {
namespace {

constexpr seconds kWindow{60};
// What a row takes besides its text: two hashes, numbers, and its place in the indexes.
constexpr std::uint64_t kRowBytes = 300;

std::uint64_t bytes_of(const store::AuditEvent& row) {
  return kRowBytes + row.tenant.size() + row.actor.size() + row.action.size() + row.sandbox.size() +
         row.object.size() + row.detail.size() + row.request_id.size();
}

store::AuditEvent limit_row(std::string_view tenant, std::uint64_t count) {
  store::AuditEvent event;
  event.tenant = tenant;
  event.actor = "server";
  event.action = "audit.limit";
  event.outcome = store::Outcome::Denied;
  event.detail = fmt::format(R"({{"calls_turned_away":{}}})", count);
  return event;
}

}  // namespace

void RowBudget::forget_old(TimePoint now) {
  std::erase_if(tenants_, [now](const auto& one) {
    return one.second.untold == 0 && now - one.second.begin >= kWindow;
  });
}

RowBudget::Minute& RowBudget::find(std::string_view tenant, TimePoint now) {
  auto at = tenants_.find(tenant);
  if (at == tenants_.end()) {
    if (tenants_.size() >= kBudgetTenantsMax) forget_old(now);
    at = tenants_.emplace(std::string(tenant), Minute{.begin = now}).first;
  }
  Minute& minute = at->second;
  if (now - minute.begin >= kWindow) minute = Minute{.begin = now, .untold = minute.untold};
  return minute;
}

RowBudget::Verdict RowBudget::judge(std::string_view tenant, const Limits& limits, TimePoint now) {
  Minute& minute = find(tenant, now);
  Verdict out;
  const bool over = (limits.bytes != 0 && minute.bytes >= limits.bytes) ||
                    (limits.refusals != 0 && minute.refusals >= limits.refusals);
  if (over) {
    ++minute.untold;
    out.wait = std::chrono::ceil<seconds>(kWindow - (now - minute.begin));
  }
  if (minute.untold > 0 && !minute.told) {
    out.row = limit_row(tenant, minute.untold);
    minute.untold = 0;
    minute.told = true;
  }
  return out;
}

void RowBudget::charge(const store::AuditEvent& row, TimePoint now) {
  if (row.tenant.empty()) return;
  Minute& minute = find(row.tenant, now);
  minute.bytes += bytes_of(row);
  if (row.outcome != store::Outcome::Allowed) ++minute.refusals;
}

}  // namespace caisson::control
