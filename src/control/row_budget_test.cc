#include "control/row_budget.h"

#include <gtest/gtest.h>

namespace caisson::control {
namespace {

store::AuditEvent row(std::string tenant, store::Outcome outcome, std::size_t bytes = 10) {
  store::AuditEvent event;
  event.tenant = std::move(tenant);
  event.outcome = outcome;
  event.object = std::string(bytes, 'x');
  return event;
}

TEST(RowBudget, BytesOfOneTenantAreBoundedAndHisNeighbourIsNotTouched) {
  RowBudget budget;
  const RowBudget::Limits limits{.bytes = 10'000, .refusals = 0};
  TimePoint now = Clock::now();
  std::uint64_t rows = 0;
  while (budget.judge("red", limits, now).wait == seconds(0) && rows < 1000) {
    budget.charge(row("red", store::Outcome::Allowed, 1000), now);
    ++rows;
  }
  EXPECT_EQ(rows, 8U);  // each with what a row takes besides
  EXPECT_GT(budget.judge("red", limits, now).wait, seconds(0));
  EXPECT_EQ(budget.judge("blue", limits, now).wait, seconds(0));
  now += seconds(60);
  EXPECT_EQ(budget.judge("red", limits, now).wait, seconds(0));
}

TEST(RowBudget, CallsThatCameToNothingHaveASmallerShare) {
  RowBudget budget;
  const RowBudget::Limits limits{.bytes = 0, .refusals = 5};
  const TimePoint now = Clock::now();
  for (int i = 0; i < 100; ++i) budget.charge(row("red", store::Outcome::Allowed), now);
  EXPECT_EQ(budget.judge("red", limits, now).wait, seconds(0));
  for (int i = 0; i < 5; ++i) budget.charge(row("red", store::Outcome::Denied), now);
  EXPECT_GT(budget.judge("red", limits, now).wait, seconds(0));
}

TEST(RowBudget, WhoeverIsTurnedAwayIsCountedInARowAMinute) {
  RowBudget budget;
  const RowBudget::Limits limits{.bytes = 1, .refusals = 0};
  TimePoint now = Clock::now();
  budget.charge(row("red", store::Outcome::Allowed), now);
  const auto first = budget.judge("red", limits, now);
  ASSERT_TRUE(first.row);
  EXPECT_EQ(first.row->action, "audit.limit");
  EXPECT_EQ(first.row->tenant, "red");
  for (int i = 0; i < 41; ++i) EXPECT_FALSE(budget.judge("red", limits, now).row);
  now += seconds(60);
  const auto next = budget.judge("red", limits, now);
  EXPECT_EQ(next.wait, seconds(0));
  ASSERT_TRUE(next.row);
  EXPECT_NE(next.row->detail.find("41"), std::string::npos) << next.row->detail;
  EXPECT_FALSE(budget.judge("red", limits, now).row);
}

TEST(RowBudget, TenantsOfMinutesAgoAreForgotten) {
  RowBudget budget;
  TimePoint now = Clock::now();
  for (std::size_t i = 0; i < kBudgetTenantsMax; ++i)
    budget.charge(row(std::to_string(i), store::Outcome::Allowed), now);
  EXPECT_EQ(budget.tenants(), kBudgetTenantsMax);
  now += seconds(60);
  budget.charge(row("new", store::Outcome::Allowed), now);
  EXPECT_EQ(budget.tenants(), 1U);
}

// Code in a sandbox is not its owner: what it is refused without end turns away neither the owner's
// calls nor another sandbox.
TEST(RowBudget, AGuestSpendsItsOwnShare) {
  RowBudget budget;
  const TimePoint now = Clock::now();
  store::AuditEvent row;
  row.tenant = "a";
  row.actor = kGuestActor;
  row.sandbox = "one";
  row.outcome = store::Outcome::Denied;
  for (std::uint64_t i = 0; i < kGuestAuditRefusalsPerMinute; ++i) {
    EXPECT_EQ(budget.judge_guest("a", "one", {}, now).wait, seconds(0));
    budget.charge(row, now);
  }
  EXPECT_GT(budget.judge_guest("a", "one", {}, now).wait, seconds(0));
  EXPECT_EQ(budget.judge_guest("a", "two", {}, now).wait, seconds(0));
  EXPECT_EQ(budget.judge("a", RowBudget::Limits{.refusals = 1}, now).wait, seconds(0));
  EXPECT_EQ(budget.judge_guest("a", "one", {}, now + seconds(61)).wait, seconds(0));
}

}  // namespace
}  // namespace caisson::control
