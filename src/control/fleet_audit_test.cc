// What is in the audit, what is not, and what happens when it cannot be written.
#include <algorithm>

#include "control/fleet_fixture_test.h"
#include "control/fleet_impl.h"

namespace caisson::control::test {
namespace {

class FleetAudit : public FleetTest {
 protected:
  std::size_t count(std::string_view action) const {
    return static_cast<std::size_t>(
        std::ranges::count(store_.rows, action, &store::AuditEvent::action));
  }
  std::uint32_t start(const std::string& id) {
    ProcessWish wish;
    wish.exec.command = "cat";
    const auto started = run(fleet_->start(me_, id, wish));
    EXPECT_TRUE(started) << started.error().message;
    return started ? started->id : 0;
  }
};

TEST_F(FleetAudit, WhatChangesAProcessIsARow) {
  open();
  const std::string id = create();
  me_.request_id = "r1";
  const std::uint32_t process = start(id);
  me_.request_id = "r2";
  ASSERT_TRUE(run(fleet_->attach(me_, id, process, 0, 0)));
  EXPECT_EQ(count("process.attach"), 1U);
  me_.request_id = "r3";
  // One call in many pieces is one row.
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(run(fleet_->write_input(me_, id, process, "x", false)));
  EXPECT_EQ(count("process.input"), 1U);
  EXPECT_EQ(store_.last().object, "process " + std::to_string(process) + ": cat");
  EXPECT_EQ(store_.last().request_id, "r3");
  me_.request_id = "r4";
  ASSERT_TRUE(run(fleet_->write_input(me_, id, process, "x", false)));
  EXPECT_EQ(count("process.input"), 2U);
  me_.request_id = "r5";
  ASSERT_TRUE(run(fleet_->signal(me_, id, process, 15, false)));
  EXPECT_EQ(count("process.signal"), 1U);
  EXPECT_NE(store_.last().detail.find("15"), std::string::npos);
  ASSERT_TRUE(run(fleet_->wait(me_, id, process, milliseconds(5000))));
  ASSERT_TRUE(run(fleet_->forget(me_, id, process)));
  EXPECT_EQ(count("process.forget"), 1U);
}

TEST_F(FleetAudit, TheEndOfACallsOwnCommandIsPartOfIt) {
  open();
  const std::string id = create();
  me_.request_id = "r1";
  const std::uint32_t process = start(id);
  ASSERT_TRUE(run(fleet_->attach(me_, id, process, 0, 0)));
  ASSERT_TRUE(run(fleet_->write_input(me_, id, process, "x", true)));
  guest(id).end(process, 0);
  ASSERT_TRUE(run(fleet_->wait(me_, id, process, milliseconds(5000))));
  (void)run(fleet_->signal(me_, id, process, 9, true));
  (void)run(fleet_->forget(me_, id, process));
  EXPECT_EQ(count("process.start"), 1U);
  for (const char* action : {"process.attach", "process.input", "process.forget"})
    EXPECT_EQ(count(action), 0U) << action;
}

TEST_F(FleetAudit, WithoutAnAuditNothingIsTypedOrSignalled) {
  open();
  const std::string id = create();
  me_.request_id = "r1";
  const std::uint32_t process = start(id);
  store_.fails = true;
  EXPECT_EQ(run(fleet_->exec(me_, id, line("echo"))).error().code, Errc::StoreFull);
  // Even in the call that started it: what is typed runs.
  EXPECT_EQ(run(fleet_->write_input(me_, id, process, "x", false)).error().code, Errc::StoreFull);
  me_.request_id = "r2";
  EXPECT_EQ(run(fleet_->write_input(me_, id, process, "x", false)).error().code, Errc::StoreFull);
  EXPECT_EQ(run(fleet_->signal(me_, id, process, 15, false)).error().code, Errc::StoreFull);
  EXPECT_EQ(run(fleet_->resize(me_, id, process, 5, 5)).error().code, Errc::StoreFull);
  EXPECT_EQ(run(fleet_->attach(me_, id, process, 0, 0)).error().code, Errc::StoreFull);
  EXPECT_EQ(run(fleet_->forget(me_, id, process)).error().code, Errc::StoreFull);
  ASSERT_TRUE(guest(id).processes.contains(process));
  // But a call may end what it began: otherwise it would run on for nobody.
  me_.request_id = "r1";
  (void)run(fleet_->signal(me_, id, process, 9, true));
  store_.fails = false;
  EXPECT_FALSE(run(fleet_->process(me_, id, process))->running);
}

TEST_F(FleetAudit, WhatCouldNotBeWrittenIsCountedWhenItCanBeAgain) {
  open();
  const std::string id = create();
  const std::string other = create();
  store_.fails = true;
  launcher_->end(other, engine::EndReason::Life);  // nobody waits for its row
  EXPECT_EQ(store_.unwritten, 1U);
  store_.fails = false;
  ASSERT_TRUE(run(fleet_->exec(me_, id, line("echo"))));
  ASSERT_EQ(count("audit.resume"), 1U);
  const auto resumed = std::ranges::find(store_.rows, "audit.resume", &store::AuditEvent::action);
  EXPECT_EQ(json::parse(resumed->detail).at("unwritten_rows").as_int64(), 1);
  ASSERT_TRUE(run(fleet_->exec(me_, id, line("echo"))));
  EXPECT_EQ(count("audit.resume"), 1U);
}

TEST_F(FleetAudit, ADenialThatCannotBeWrittenIsNotAnswered) {
  open();
  const std::string id = create();
  store_.fails = true;
  EXPECT_EQ(run(fleet_->exec(me_, id, line("shutdown now"))).error().code, Errc::StoreFull);
}

TEST_F(FleetAudit, ATenantHasItsShareOfTheAudit) {
  options_.audit_refusals_per_minute = 10;
  open();
  const std::string id = create();
  const std::string long_path(3000, 'a');
  int refused = 0;
  for (; refused < 100; ++refused) {
    const auto answer = tool(id, "no_such_tool", R"({"path": ")" + long_path + R"("})");
    ASSERT_FALSE(answer);
    if (answer.error().code == Errc::Exhausted) break;
    EXPECT_LE(store_.last().object.size(), kRefusedTextBytesMax + 3);
  }
  EXPECT_EQ(refused, 10);
  EXPECT_EQ(run(fleet_->exec(me_, id, line("echo"))).error().code, Errc::Exhausted);
  EXPECT_EQ(run(fleet_->create(me_, {})).error().code, Errc::Exhausted);
  EXPECT_EQ(count("audit.limit"), 1U);
  const auto theirs = run(fleet_->create(other_, {}));
  ASSERT_TRUE(theirs) << theirs.error().message;
  // To end something is always possible.
  EXPECT_TRUE(run(fleet_->destroy(me_, id)));
}

TEST_F(FleetAudit, OneOfTwoPausesIsTurnedAway) {
  open();
  const std::string id = create();
  const std::string other = create();
  // A row that is missing makes both look at the store before they begin.
  store_.fails = true;
  launcher_->end(other, engine::EndReason::Life);
  store_.fails = false;
  const auto one = begin(fleet_->pause(me_, id));
  const auto two = begin(fleet_->pause(me_, id));
  until([&] { return one->has_value() && two->has_value(); });
  const int busy = static_cast<int>(!**one && (*one)->error().code == Errc::Busy) +
                   static_cast<int>(!**two && (*two)->error().code == Errc::Busy);
  EXPECT_EQ(busy, 1);
}

TEST_F(FleetAudit, ALauncherThatIsBackKeepsNothingThatWasWrittenOff) {
  open();
  const std::string id = create();
  world_.connected = false;
  launcher_->watcher().on_lost();
  EXPECT_TRUE(fleet_->list(me_).empty());
  EXPECT_TRUE(world_.boxes.contains(id)) << "only the connection was lost";
  world_.connected = true;
  launcher_->watcher().on_back();
  until([&] { return !world_.boxes.contains(id); });
  const std::string next = create();
  EXPECT_TRUE(world_.boxes.contains(next));
}

TEST_F(FleetAudit, NobodyGetsMoreThanTheMost) {
  options_.limits_max.memory_bytes = 1024ULL << 20U;
  options_.limits_max.timeout_seconds = 900;
  open();
  CreateWish wish;
  wish.limits.memory_bytes = 2048ULL << 20U;
  const auto refused = run(fleet_->create(me_, wish));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Denied);
  EXPECT_EQ(refused.error().field, "resource_limits.memory_mb");
  EXPECT_NE(refused.error().message.find("2048"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("1024"), std::string::npos) << refused.error().message;
  wish.limits.memory_bytes = 1024ULL << 20U;
  const std::string id = create(wish);
  LimitWish change;
  change.memory_bytes = 1ULL << 40U;
  EXPECT_EQ(run(fleet_->set_limits(me_, id, change)).error().field, "resource_limits.memory_mb");
  change = {};
  change.timeout_seconds = 901;
  EXPECT_EQ(run(fleet_->set_limits(me_, id, change)).error().code, Errc::Denied);
  change.timeout_seconds = 900;
  EXPECT_TRUE(run(fleet_->set_limits(me_, id, change)));
}

}  // namespace
}  // namespace caisson::control::test
