// A sandbox moves into a stronger tier, and none begins below the least that the settings want.
#include <algorithm>

#include "control/fleet_fixture_test.h"

namespace caisson::control::test {
namespace {

using policy::SandboxTier;

class PromoteTest : public FleetTest {
 protected:
  PromoteTest() {
    options_.host->runsc = "/usr/bin/runsc";
    options_.host->qemu = "/usr/bin/qemu";
  }
  Result<SandboxView> promote(const std::string& id, std::string tier, bool end_processes = false) {
    return run(fleet_->promote(me_, id, {std::move(tier), end_processes}));
  }
  std::string create_on(engine::Storage storage, bool persistent = false) {
    CreateWish wish;
    wish.name = "box";
    wish.labels["a"] = "b";
    wish.storage = storage;
    wish.persistent = persistent;
    wish.limits.memory_bytes = 300ULL << 20U;
    return create(std::move(wish));
  }
  static CreateWish of_tier(std::string tier) {
    CreateWish wish;
    wish.tier = std::move(tier);
    return wish;
  }
  const engine::LaunchRequest& last() const { return world_.requests.back(); }
};

TEST_F(PromoteTest, FilesOnDiskStayWhereTheyAre) {
  open();
  const std::string id = create_on(engine::Storage::Disk);
  const auto before = *fleet_->get(me_, id);
  const auto promoted = promote(id, "gvisor");
  ASSERT_TRUE(promoted) << promoted.error().message;
  EXPECT_EQ(promoted->id, id);
  EXPECT_EQ(promoted->name, "box");
  EXPECT_EQ(promoted->labels.at("a"), "b");
  EXPECT_EQ(promoted->limits, before.limits);
  EXPECT_EQ(promoted->created, before.created);
  EXPECT_EQ(promoted->expires, before.expires);
  EXPECT_EQ(last().tier, SandboxTier::Gvisor);
  EXPECT_EQ(last().id, id);
  EXPECT_TRUE(last().resume);
  EXPECT_LE(last().limits.life_us, before.limits.life_us);  // it has lived already
  EXPECT_EQ(store_.last().action, "sandbox.promote");
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
  CreateWish same;
  same.name = "box";
  EXPECT_EQ(run(fleet_->create(me_, same)).error().code, Errc::AlreadyExists);
  EXPECT_EQ(fleet_->counters().living, 1U);
}

TEST_F(PromoteTest, FilesInMemoryAreSealedAndStandBelow) {
  open();
  const std::string id = create_on(engine::Storage::Memory);
  ASSERT_TRUE(promote(id, "gvisor"));
  EXPECT_FALSE(last().resume);
  EXPECT_EQ(last().id, id);
  EXPECT_EQ(last().stack.layers.size(), 1U);
  EXPECT_EQ(last().storage, engine::Storage::Memory);
}

TEST_F(PromoteTest, WhatRunsIsEndedOnlyWhenSomebodySaysSo) {
  open();
  const std::string id = create_on(engine::Storage::Disk);
  ProcessWish process;
  process.exec.argv = {"daemon"};
  ASSERT_TRUE(run(fleet_->start(me_, id, process)));
  const auto refused = promote(id, "gvisor");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Busy);
  EXPECT_NE(refused.error().message.find("end_processes"), std::string::npos);
  EXPECT_EQ(world_.requests.size(), 1U);
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
}

TEST_F(PromoteTest, OnlyUpwardsAndOnlyWhatCanBeCarried) {
  open();
  const std::string id = create_on(engine::Storage::Disk);
  EXPECT_EQ(promote(id, "native").error().field, "tier");
  EXPECT_EQ(promote(id, "tank").error().field, "tier");
  const std::string kept = create([] {
    CreateWish wish;
    wish.persistent = true;
    return wish;
  }());
  EXPECT_EQ(promote(kept, "microvm").error().code, Errc::Unsupported);
  ASSERT_TRUE(promote(id, "gvisor"));
  EXPECT_EQ(promote(id, "gvisor").error().code, Errc::InvalidArgument);
  EXPECT_EQ(run(fleet_->promote(other_, id, {"microvm", true})).error().code, Errc::NotFound);
}

TEST_F(PromoteTest, AHostWithoutThatTierRefusesBeforeAnythingEnds) {
  options_.host->runsc.clear();
  open();
  const std::string id = create_on(engine::Storage::Disk);
  EXPECT_EQ(promote(id, "gvisor").error().code, Errc::Unsupported);
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
}

TEST_F(PromoteTest, WhenItCannotBeStartedThereItGoesOnWhereItWas) {
  open();
  const std::string id = create_on(engine::Storage::Disk);
  world_.refused_tier = SandboxTier::Gvisor;
  const auto failed = promote(id, "gvisor");
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("goes on in 'native'"), std::string::npos)
      << failed.error().message;
  EXPECT_EQ(last().tier, SandboxTier::Native);
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Running);
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
}

TEST_F(PromoteTest, AStoppedOneHasItAtItsNextStart) {
  open();
  const std::string id = create_on(engine::Storage::Disk, true);
  ASSERT_TRUE(run(fleet_->stop_sandbox(me_, id)));
  options_.minimum.everybody = SandboxTier::Gvisor;
  ASSERT_TRUE(fleet_->reload(options_));
  const auto weak = run(fleet_->start_sandbox(me_, id));
  ASSERT_FALSE(weak);
  EXPECT_EQ(weak.error().code, Errc::Denied);
  EXPECT_NE(weak.error().message.find("promote"), std::string::npos);
  ASSERT_TRUE(promote(id, "gvisor"));
  ASSERT_TRUE(run(fleet_->start_sandbox(me_, id)));
  EXPECT_EQ(last().tier, SandboxTier::Gvisor);
}

TEST_F(PromoteTest, ANewServerKnowsHowLongItHasLived) {
  open();
  const std::string id = create_on(engine::Storage::Disk);
  const auto promoted = promote(id, "gvisor");
  ASSERT_TRUE(promoted);
  close();
  open();
  EXPECT_EQ(fleet_->get(me_, id)->limits, promoted->limits);
  EXPECT_EQ(fleet_->get(me_, id)->expires, promoted->expires);
}

// It would write behind the copy of the files, and say that it has.
TEST_F(PromoteTest, ItWaitsForCallsThatAreUnderWay) {
  open();
  const std::string id = create_on(engine::Storage::Disk);
  const auto writer = run(fleet_->write_file(me_, id, "early", {}));
  ASSERT_TRUE(writer) << writer.error().message;
  EXPECT_EQ(promote(id, "microvm").error().code, Errc::Busy);
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Running);
}

// What somebody was told holds, holds for the one that is started: nobody changes it meanwhile.
TEST_F(PromoteTest, ChangesAreRefusedAndWritesWaitWhileItMoves) {
  open();
  const std::string id = create_on(engine::Storage::Disk);
  const auto before = *fleet_->get(me_, id);
  world_.store.launch_waits = std::make_shared<engine::Wakeup>(context_.get_executor());
  world_.store.seal_waits = std::make_shared<engine::Wakeup>(context_.get_executor());
  const auto moved = begin(fleet_->promote(me_, id, {"microvm", false}));
  LimitWish limits;
  limits.memory_bytes = 200ULL << 20U;
  const auto nothing_changes = [&] {
    EXPECT_EQ(run(fleet_->set_labels(me_, id, {{"a", "c"}})).error().code, Errc::Busy);
    EXPECT_EQ(run(fleet_->set_limits(me_, id, limits)).error().code, Errc::Busy);
    EXPECT_EQ(run(fleet_->set_network(me_, id, {})).error().code, Errc::Busy);
    EXPECT_EQ(run(fleet_->pause(me_, id)).error().code, Errc::Busy);
  };
  until([&] { return world_.store.layers.size() == 1; });
  nothing_changes();
  const auto late = begin(fleet_->make_folder(me_, id, "late", false));
  world_.store.seal_waits->wake();
  until([&] { return world_.launches_waiting == 1; });
  const auto labels = begin(fleet_->set_labels(me_, id, {{"a", "c"}}));
  EXPECT_FALSE(late->has_value());
  world_.store.launch_waits->wake();
  until([&] { return moved->has_value() && late->has_value() && labels->has_value(); });
  ASSERT_TRUE(**moved) << (**moved).error().message;
  ASSERT_FALSE(**late);
  EXPECT_NE((**late).error().message.find("started anew"), std::string::npos);
  EXPECT_FALSE(**labels);
  EXPECT_EQ(fleet_->get(me_, id)->labels.at("a"), "b");
  EXPECT_EQ(fleet_->get(me_, id)->limits, before.limits);
  world_.store.launch_waits.reset();
  EXPECT_TRUE(run(fleet_->set_labels(me_, id, {{"a", "c"}})));
}

// They come one after the other, and the second knows what became of the first.
TEST_F(PromoteTest, WhoWaitsForAStartOrAMoveDoesNotGoOnWithTheOldOne) {
  open();
  const std::string id = create_on(engine::Storage::Disk, true);
  ASSERT_TRUE(run(fleet_->stop_sandbox(me_, id)));
  world_.store.launch_waits = std::make_shared<engine::Wakeup>(context_.get_executor());
  const auto started = begin(fleet_->start_sandbox(me_, id));
  until([&] { return world_.launches_waiting == 1; });
  const auto moved = begin(fleet_->promote(me_, id, {"gvisor", false}));
  const auto labels = begin(fleet_->set_labels(me_, id, {{"a", "c"}}));
  world_.store.launch_waits->wake();
  until([&] { return started->has_value() && moved->has_value() && labels->has_value(); });
  EXPECT_TRUE(**started);
  EXPECT_EQ((**moved).error().code, Errc::Busy);
  EXPECT_EQ((**labels).error().code, Errc::Busy);
  EXPECT_EQ(last().tier, SandboxTier::Native);
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Running);

  world_.store.launch_waits = std::make_shared<engine::Wakeup>(context_.get_executor());
  const auto again = begin(fleet_->promote(me_, id, {"gvisor", false}));
  until([&] { return world_.launches_waiting == 1; });
  const auto start = begin(fleet_->start_sandbox(me_, id));
  const auto stop = begin(fleet_->stop_sandbox(me_, id));
  const auto sleep = begin(fleet_->hibernate(me_, id));
  world_.store.launch_waits->wake();
  until([&] {
    return again->has_value() && start->has_value() && stop->has_value() && sleep->has_value();
  });
  ASSERT_TRUE(**again) << (**again).error().message;
  EXPECT_EQ((**start).error().code, Errc::Busy);
  EXPECT_EQ((**stop).error().code, Errc::Busy);
  EXPECT_EQ((**sleep).error().code, Errc::Busy);
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Running);
  EXPECT_EQ(last().tier, SandboxTier::Gvisor);
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
}

TEST_F(PromoteTest, NobodyBeginsBelowTheLeast) {
  options_.minimum.tenants["red"] = SandboxTier::Gvisor;
  open();
  const auto refused = run(fleet_->create(me_, {}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Denied);
  EXPECT_EQ(refused.error().field, "tier");
  EXPECT_NE(refused.error().message.find("tiers.tenants"), std::string::npos);
  EXPECT_TRUE(run(fleet_->create(other_, {})));
  EXPECT_TRUE(run(fleet_->create(me_, of_tier("gvisor"))));
  EXPECT_EQ(fleet_->minimum_tier("red"), SandboxTier::Gvisor);
  EXPECT_EQ(fleet_->minimum_tier("blue"), SandboxTier::Native);
}

TEST_F(PromoteTest, ForksAreNoWayBelowItEither) {
  open();
  const std::string id = create_on(engine::Storage::Disk);
  const auto snapshot = run(fleet_->snapshot(me_, id, {}));
  ASSERT_TRUE(snapshot);
  options_.minimum.everybody = SandboxTier::Gvisor;
  ASSERT_TRUE(fleet_->reload(options_));
  EXPECT_EQ(run(fleet_->fork(me_, id, {})).error().code, Errc::Denied);
  CreateWish from;
  from.snapshot = snapshot->id;
  EXPECT_EQ(run(fleet_->create(me_, from)).error().code, Errc::Denied);
}

TEST_F(PromoteTest, WhereTheSettingsSaySoItIsRaised) {
  options_.minimum.everybody = SandboxTier::Gvisor;
  options_.minimum.raise = true;
  open();
  ASSERT_TRUE(run(fleet_->create(me_, {})));
  EXPECT_EQ(last().tier, SandboxTier::Gvisor);
  ASSERT_TRUE(run(fleet_->create(me_, of_tier("microvm"))));
  EXPECT_EQ(last().tier, SandboxTier::Microvm);
}

}  // namespace
}  // namespace caisson::control::test
