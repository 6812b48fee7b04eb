// Processes that are kept: snapshots and forks with memory, sandboxes that hibernate.
#include <algorithm>

#include "control/file_keeping.h"
#include "control/fleet_files_fixture_test.h"

namespace caisson::control {
namespace {

using test::FleetFiles;

class FleetMemory : public FleetFiles {
 protected:
  std::string create_on_disk(std::string name = "") {
    CreateWish wish;
    wish.storage = engine::Storage::Disk;
    wish.name = std::move(name);
    return create(std::move(wish));
  }
  Result<SnapshotView> keep(const std::string& id, std::string name = "") {
    SnapshotWish wish;
    wish.name = std::move(name);
    wish.memory = true;
    return run(fleet_->snapshot(me_, id, std::move(wish)));
  }
  Result<SandboxView> create_from(const std::string& snapshot) {
    CreateWish wish;
    wish.snapshot = snapshot;
    wish.memory = true;
    return run(fleet_->create(me_, std::move(wish)));
  }
  const engine::MemoryImage& asked() { return world_.requests.back().memory; }
};

TEST_F(FleetMemory, ASnapshotWithProcesses) {
  open();
  const std::string id = create_on_disk();
  const auto made = keep(id, "warm");
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(made->memory);
  EXPECT_EQ(made->memory->runtime, "fake 1");
  EXPECT_EQ(made->memory->bytes, 7U);
  EXPECT_FALSE(world_.boxes.at(id).standing);
  ASSERT_EQ(world_.store.memories.size(), 1U);
  const std::string name = *world_.store.memories.begin();
  again();  // a record that another server reads
  const auto copy = create_from("warm");
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(asked(), (engine::MemoryImage{name, "digest of " + name, "fake 1", false}));
  EXPECT_EQ(copy->parent, made->id);
  // Without a word of processes it is the files alone.
  CreateWish plain;
  plain.snapshot = "warm";
  ASSERT_TRUE(run(fleet_->create(me_, plain)));
  EXPECT_TRUE(asked().name.empty());
  ASSERT_TRUE(run(fleet_->remove_snapshot(me_, "warm")));
  until([&] { return world_.store.memories.empty(); });
}

TEST_F(FleetMemory, WhatACopyCannotBeTold) {
  open();
  const std::string id = create_on_disk();
  ASSERT_TRUE(keep(id, "warm"));
  CreateWish wish;
  wish.snapshot = "warm";
  wish.memory = true;
  wish.limits.memory_bytes = 64 << 20;
  EXPECT_EQ(run(fleet_->create(me_, wish)).error().field, "limits");
  wish.limits = {};
  wish.uid = 0;
  EXPECT_EQ(run(fleet_->create(me_, wish)).error().field, "user");
  wish.uid.reset();
  EXPECT_EQ(run(fleet_->create(other_, wish)).error().code, Errc::NotFound);
  wish.snapshot.reset();
  EXPECT_EQ(run(fleet_->create(me_, wish)).error().field, "memory");
  snap(id, "files");
  wish.snapshot = "files";
  EXPECT_EQ(run(fleet_->create(me_, wish)).error().field, "memory");
}

TEST_F(FleetMemory, LimitsOfTodayHoldForProcessesOfYesterday) {
  open();
  const std::string id = create_on_disk();
  ASSERT_TRUE(keep(id, "warm"));
  options_.limits.memory_bytes = options_.limits_max.memory_bytes = 64 << 20;
  again();
  EXPECT_EQ(create_from("warm").error().code, Errc::Denied);
}

TEST_F(FleetMemory, WhatCannotBeSavedChangesNothing) {
  open();
  const std::string id = create_on_disk();
  world_.store.fails["save_memory"] = Error{Errc::Unsupported, "this tier keeps none", 0};
  const auto refused = keep(id);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Unsupported);
  EXPECT_EQ(refused.error().field, "memory");
  EXPECT_EQ(run(fleet_->hibernate(me_, id)).error().code, Errc::Unsupported);
  ForkWish wish;
  wish.memory = true;
  EXPECT_EQ(run(fleet_->fork(me_, id, wish)).error().code, Errc::Unsupported);
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Running);
  world_.store.fails.clear();
  // Saved, and then its files cannot be: it goes on, and the memory is dropped.
  world_.store.fails["seal"] = Error{Errc::Internal, "no", 0};
  EXPECT_FALSE(keep(id));
  EXPECT_FALSE(world_.boxes.at(id).standing);
  EXPECT_TRUE(world_.store.memories.empty());
  world_.store.fails.clear();
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
}

TEST_F(FleetMemory, AForkWithProcessesLeavesNoMemory) {
  open();
  const std::string id = create_on_disk();
  ForkWish wish;
  wish.memory = true;
  const auto fork = run(fleet_->fork(me_, id, wish));
  ASSERT_TRUE(fork) << fork.error().message;
  EXPECT_FALSE(asked().name.empty());
  EXPECT_FALSE(asked().same);
  EXPECT_EQ(world_.requests.back().stack.layers.size(), 1U);
  EXPECT_FALSE(world_.boxes.at(id).standing);
  EXPECT_TRUE(world_.store.memories.empty());
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
  EXPECT_TRUE(run(fleet_->exec(me_, fork->id, line("echo x"))));
}

TEST_F(FleetMemory, OneThatHibernatesIsWokenByAUse) {
  open();
  const std::string id = create_on_disk("sleeper");
  const auto asleep = run(fleet_->hibernate(me_, id));
  ASSERT_TRUE(asleep) << asleep.error().message;
  EXPECT_EQ(asleep->state, State::Hibernated);
  EXPECT_FALSE(world_.boxes.contains(id));
  EXPECT_TRUE(world_.store.uppers.contains(id));
  EXPECT_EQ(world_.store.memories.size(), 1U);
  EXPECT_EQ(run(fleet_->hibernate(me_, id))->state, State::Hibernated);
  EXPECT_EQ(run(fleet_->usage(me_, id))->usage.memory_bytes, 0U);
  again();  // the next server finds it so
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Hibernated);
  const auto first = begin(fleet_->exec(me_, id, line("echo x")));
  const auto second = begin(fleet_->stat(me_, id, "f", true));
  until([&] { return first->has_value() && second->has_value(); });
  EXPECT_TRUE(**first) << (**first).error().message;
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Running);
  EXPECT_EQ(std::ranges::count(world_.requests, id, &engine::LaunchRequest::id), 1);
  EXPECT_TRUE(asked().same);
  EXPECT_TRUE(world_.requests.back().resume);
  until([&] { return world_.store.memories.empty(); });
  again();
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Running);
}

TEST_F(FleetMemory, WhatCannotWakeStaysAsItIs) {
  open();
  const std::string id = create_on_disk();
  ASSERT_TRUE(run(fleet_->hibernate(me_, id)));
  world_.launch_fails = Error{Errc::Unsupported, "another runtime", 0};
  EXPECT_EQ(run(fleet_->exec(me_, id, line("echo x"))).error().code, Errc::Unsupported);
  EXPECT_EQ(run(fleet_->resume(me_, id)).error().code, Errc::Unsupported);
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Hibernated);
  world_.launch_fails.reset();
  // On its files alone.
  ASSERT_TRUE(run(fleet_->start_sandbox(me_, id)));
  EXPECT_TRUE(asked().name.empty());
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Running);
  until([&] { return world_.store.memories.empty(); });
}

TEST_F(FleetMemory, NothingOfOneThatIsDestroyedInItsSleepStays) {
  open();
  const std::string id = create_on_disk();
  ASSERT_TRUE(run(fleet_->hibernate(me_, id)));
  ASSERT_TRUE(run(fleet_->destroy(me_, id)));
  until([&] { return world_.store.memories.empty() && world_.store.uppers.empty(); });
}

TEST_F(FleetMemory, ItsTimeToLiveGoesOn) {
  open();
  CreateWish wish;
  wish.storage = engine::Storage::Disk;
  wish.limits.timeout_seconds = 1;
  const std::string id = create(std::move(wish));
  ASSERT_TRUE(run(fleet_->hibernate(me_, id)));
  until([&] { return !fleet_->get(me_, id); });
  until([&] { return world_.store.memories.empty(); });
}

// A change while it sleeps holds: while it sleeps, for the next server, and when it is woken.
TEST_F(FleetMemory, ItsTimeToLiveIsChangedInItsSleep) {
  open();
  CreateWish wish;
  wish.storage = engine::Storage::Disk;
  wish.limits.timeout_seconds = 60;
  const std::string longer = create(wish);
  const std::string shorter = create(wish);
  wish.limits.timeout_seconds.reset();
  options_.limits.timeout_seconds.reset();
  ASSERT_TRUE(fleet_->reload(options_));
  const std::string anew = create(wish);
  for (const std::string& id : {longer, shorter, anew})
    ASSERT_TRUE(run(fleet_->hibernate(me_, id)));
  EXPECT_EQ(parse_kept(anew).expires, 0);
  const store::WallTime before = parse_kept(longer).expires;
  LimitWish limits;
  limits.timeout_seconds = 3600;
  ASSERT_TRUE(run(fleet_->set_limits(me_, longer, limits)));
  EXPECT_EQ(parse_kept(longer).expires, before + 3540'000'000);
  limits.timeout_seconds = 1;
  ASSERT_TRUE(run(fleet_->set_limits(me_, anew, limits)));
  limits.timeout_seconds = 0.001;
  ASSERT_TRUE(run(fleet_->set_limits(me_, shorter, limits)));
  until([&] { return !fleet_->get(me_, shorter); });
  again();
  until([&] { return !fleet_->get(me_, anew); });
  ASSERT_TRUE(run(fleet_->exec(me_, longer, line("echo x"))));
  EXPECT_GT(world_.boxes.at(longer).limits.life_us, 3500'000'000U);
}

TEST_F(FleetMemory, WhatPersistsIsStoppedWhenItsTimeEndsInItsSleep) {
  open();
  CreateWish wish;
  wish.persistent = true;
  wish.limits.timeout_seconds = 1;
  const std::string id = create(wish);
  ASSERT_TRUE(run(fleet_->hibernate(me_, id)));
  until([&] { return fleet_->get(me_, id)->state == State::Stopped; });
  EXPECT_EQ(fleet_->get(me_, id)->end_reason, "expired");
  EXPECT_EQ(store_.last().action, "sandbox.stop");
  EXPECT_EQ(parse_kept(id).hibernated, "");
  EXPECT_EQ(parse_kept(id).expires, 0);
  until([&] { return world_.store.memories.empty(); });
  EXPECT_TRUE(world_.store.uppers.contains(id));
  again();
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Stopped);
  ASSERT_TRUE(run(fleet_->start_sandbox(me_, id)));
  EXPECT_TRUE(asked().name.empty());
  EXPECT_TRUE(world_.requests.back().resume);
  EXPECT_EQ(world_.boxes.at(id).limits.life_us, 1'000'000U);
}

// A start without them would begin with an empty disk, and drop the only one that it has.
TEST_F(FleetMemory, FilesThatAreOfOnePieceWithItAreNotStartedWithout) {
  options_.host->qemu = "/usr/bin/qemu";
  world_.store.files_in_memories = true;
  open();
  for (const char* tier : {"native", "microvm"}) {
    CreateWish wish;
    wish.tier = tier;
    wish.storage = engine::Storage::Memory;
    const std::string id = create(wish);
    ASSERT_TRUE(run(fleet_->hibernate(me_, id)));
    again();
    const auto refused = run(fleet_->start_sandbox(me_, id));
    ASSERT_FALSE(refused) << tier;
    EXPECT_EQ(refused.error().code, Errc::Unsupported);
    EXPECT_NE(refused.error().message.find("resume it"), std::string::npos);
    EXPECT_EQ(fleet_->get(me_, id)->state, State::Hibernated);
    EXPECT_EQ(world_.store.memories.size(), 1U);
    ASSERT_TRUE(run(fleet_->resume(me_, id)));
    EXPECT_FALSE(asked().name.empty());
    ASSERT_TRUE(run(fleet_->hibernate(me_, id)));
    close();
    store_.kept.clear();  // the record of what is kept is lost
    open();
    EXPECT_EQ(run(fleet_->start_sandbox(me_, id)).error().code, Errc::Gone);
    ASSERT_TRUE(run(fleet_->destroy(me_, id)));
  }
}

// It stands still until all of it is on record, and goes on from wherever that fails.
TEST_F(FleetMemory, WhatCannotBePutAwayGoesOn) {
  open();
  const std::string id = create_on_disk();
  const auto goes_on = [&] {
    EXPECT_EQ(fleet_->get(me_, id)->state, State::Running);
    EXPECT_FALSE(world_.boxes.at(id).standing);
    EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
    until([&] { return world_.store.memories.empty(); });
  };
  world_.store.fails["measure"] = Error{Errc::Internal, "it cannot be read", 0};
  EXPECT_EQ(run(fleet_->hibernate(me_, id)).error().code, Errc::Internal);
  goes_on();
  world_.store.fails.clear();
  store_.fails = true;  // the row of what is kept
  EXPECT_EQ(run(fleet_->hibernate(me_, id)).error().code, Errc::StoreFull);
  store_.fails = false;
  goes_on();
  store_.holds = true;
  const auto asleep = begin(fleet_->hibernate(me_, id));
  until([&] { return !store_.held.empty(); });
  store_.fails = true;  // that of the sandbox
  store_.tell();
  until([&] { return asleep->has_value(); });
  EXPECT_EQ((**asleep).error().code, Errc::StoreFull);
  store_.fails = false;
  goes_on();
  again();
  goes_on();
  ASSERT_TRUE(run(fleet_->hibernate(me_, id)));
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
}

TEST_F(FleetMemory, NothingOfOneThatIsDestroyedWhileItIsSavedStays) {
  open();
  for (const bool hibernate : {true, false}) {
    const std::string id = create_on_disk();
    world_.store.save_waits = std::make_shared<engine::Wakeup>(context_.get_executor());
    SnapshotWish wish;
    wish.memory = true;
    const auto asleep = hibernate ? begin(fleet_->hibernate(me_, id)) : nullptr;
    const auto kept = hibernate ? nullptr : begin(fleet_->snapshot(me_, id, wish));
    until([&] { return world_.store.memories.size() == 1; });
    ASSERT_TRUE(run(fleet_->destroy(me_, id)));
    world_.store.save_waits->wake();
    until([&] { return hibernate ? asleep->has_value() : kept->has_value(); });
    EXPECT_EQ(hibernate ? (**asleep).error().code : (**kept).error().code, Errc::Gone);
    EXPECT_TRUE(world_.store.memories.empty());
  }
}

TEST_F(FleetMemory, NothingOfOneThatIsDestroyedWhileItIsPutAwayStays) {
  open();
  const std::string id = create_on_disk();
  store_.holds = true;
  const auto asleep = begin(fleet_->hibernate(me_, id));
  until([&] { return !store_.held.empty(); });
  const auto gone = begin(fleet_->destroy(me_, id));
  until([&] { return !world_.boxes.contains(id); });
  store_.tell();
  until([&] { return asleep->has_value() && gone->has_value(); });
  EXPECT_TRUE(**gone);
  EXPECT_EQ((**asleep).error().code, Errc::Gone);
  EXPECT_EQ(store_.records.at(id).state, store::RecordState::Ended);
  until([&] { return world_.store.memories.empty(); });
}

TEST_F(FleetMemory, AForkThatComesToNothingLeavesNoMemory) {
  open();
  CreateWish limited;
  limited.storage = engine::Storage::Disk;
  limited.limits.cpu_seconds = 1;
  const std::string id = create(limited);
  ForkWish wish;
  wish.memory = true;
  wish.hostname = "no name";
  EXPECT_EQ(run(fleet_->fork(me_, id, wish)).error().field, "hostname");
  EXPECT_EQ(layers(), 0U);  // refused before anything stood still
  wish.hostname.reset();
  world_.launch_fails = Error{Errc::Exhausted, "no slot", 0};
  EXPECT_EQ(run(fleet_->fork(me_, id, wish)).error().code, Errc::Exhausted);
  EXPECT_TRUE(world_.store.memories.empty());
  world_.launch_fails.reset();
  world_.cpu_us = 2'000'000;
  EXPECT_EQ(run(fleet_->fork(me_, id, wish)).error().code, Errc::Exhausted);
  EXPECT_TRUE(world_.store.memories.empty());
}

TEST_F(FleetMemory, AServerThatDiesBetweenASealAndItsForkLeavesNoMemory) {
  open();
  const std::string id = create_on_disk();
  const std::string sleeper = create_on_disk();
  ASSERT_TRUE(run(fleet_->hibernate(me_, sleeper)));
  auto made = keep(id, "kept");
  ASSERT_TRUE(made);
  EXPECT_EQ(world_.store.memories.size(), 2U);
  settle();
  close();
  const auto key = StateSeal::open(options_.state_key);
  for (store::FileRecord& row : store_.kept) {
    auto record = read_snapshot(row.key, row.created, *key->unseal(row));
    record->hidden = true;  // as a fork's is
    row = key->seal(row.key, row.created, to_json(*record));
  }
  open();
  until([&] { return world_.store.memories.size() == 1; });
  ASSERT_TRUE(run(fleet_->exec(me_, sleeper, line("echo x"))));
  EXPECT_FALSE(asked().name.empty());
}

// All that are being taken count with what they may be.
TEST_F(FleetMemory, OnesThatAreBeingSavedCount) {
  open();
  CreateWish wish;
  wish.limits.memory_bytes = kTenantStoreBytesMax / 2;
  const std::string first = create(wish);
  const std::string second = create(wish);
  const std::string third = create(wish);
  world_.store.save_waits = std::make_shared<engine::Wakeup>(context_.get_executor());
  const auto asleep = begin(fleet_->hibernate(me_, first));
  until([&] { return world_.store.memories.size() == 1; });
  EXPECT_EQ(run(fleet_->hibernate(me_, second)).error().code, Errc::Exhausted);
  world_.store.save_waits->wake();
  until([&] { return asleep->has_value(); });
  world_.store.save_waits.reset();
  EXPECT_TRUE(run(fleet_->hibernate(me_, third)));
}

TEST_F(FleetMemory, WhoComesWhileItIsPutAwayWaitsAndWakesIt) {
  open();
  CreateWish wish;
  wish.storage = engine::Storage::Disk;
  wish.limits.idle_seconds = 0.1;
  const std::string id = create(wish);
  world_.store.save_waits = std::make_shared<engine::Wakeup>(context_.get_executor());
  const auto asleep = begin(fleet_->hibernate(me_, id));
  until([&] { return world_.store.memories.size() == 1; });
  const auto call = begin(fleet_->exec(me_, id, line("echo x")));
  const auto look = begin(fleet_->stat(me_, id, "f", true));
  const TimePoint later = Clock::now() + milliseconds(300);
  until([&] { return Clock::now() > later; });  // it is not idle: somebody saves it
  EXPECT_FALSE(call->has_value());
  ASSERT_TRUE(fleet_->get(me_, id));
  world_.store.save_waits->wake();
  until([&] { return asleep->has_value() && call->has_value() && look->has_value(); });
  EXPECT_TRUE(**asleep) << (**asleep).error().message;
  EXPECT_TRUE(**call) << (**call).error().message;
  EXPECT_EQ((**look).error().code, Errc::NotFound);
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Running);
  EXPECT_FALSE(asked().name.empty());
  // As good when it comes to nothing.
  world_.store.save_waits.reset();
  store_.holds = true;
  const auto again = begin(fleet_->hibernate(me_, id));
  until([&] { return !store_.held.empty(); });
  const auto other = begin(fleet_->stat(me_, id, "f", true));
  settle();
  EXPECT_FALSE(other->has_value());
  store_.fails = true;
  store_.tell();
  until([&] { return again->has_value() && other->has_value(); });
  store_.fails = false;
  EXPECT_FALSE(**again);
  EXPECT_EQ((**other).error().code, Errc::NotFound);
}

// A rest that begins between two turns of one who hibernates.
TEST_F(FleetMemory, OneThatWasJustSentToRestHibernates) {
  open();
  CreateWish wish;
  wish.storage = engine::Storage::Disk;
  wish.limits.rest_seconds = 0.02;
  const std::string id = create(wish);
  for (int i = 0; i < 5; ++i) {
    until([&] { return world_.boxes.at(id).frozen; });  // it settles: the turn is not free
    ASSERT_TRUE(run(fleet_->hibernate(me_, id)));
    ASSERT_TRUE(run(fleet_->resume(me_, id)));
  }
}

// Who waits to wake one that is started on its files alone does not start it once more.
TEST_F(FleetMemory, OneStartsItAndAnotherWouldHaveWokenIt) {
  open();
  const std::string id = create_on_disk();
  ASSERT_TRUE(run(fleet_->hibernate(me_, id)));
  world_.store.launch_waits = std::make_shared<engine::Wakeup>(context_.get_executor());
  const auto started = begin(fleet_->start_sandbox(me_, id));
  until([&] { return world_.launches_waiting == 1; });
  const auto call = begin(fleet_->exec(me_, id, line("echo x")));
  LimitWish limits;
  limits.timeout_seconds = 50;
  const auto changed = begin(fleet_->set_limits(me_, id, limits));
  world_.store.launch_waits->wake();
  until([&] { return started->has_value() && call->has_value() && changed->has_value(); });
  EXPECT_TRUE(**started);
  EXPECT_EQ((**call).error().code, Errc::Busy);
  EXPECT_EQ((**changed).error().code, Errc::Busy);
  EXPECT_EQ(std::ranges::count(world_.requests, id, &engine::LaunchRequest::id), 1);
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
}

// The save goes on without the server that asked for it, and nobody wants what comes of it.
TEST_F(FleetMemory, OneThatIsBeingSavedOutlivesItsServer) {
  open();
  const std::string id = create();
  close();
  world_.boxes.at(id).standing = true;
  world_.store.memories.insert(world_.boxes.at(id).memory = SandboxId::random()->str());
  world_.store.saving = 3;
  open();
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Running);
  EXPECT_FALSE(world_.boxes.at(id).standing);
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
  until([&] { return world_.store.memories.empty(); });
}

TEST_F(FleetMemory, WhatIsFixedIsFixedInItsSleep) {
  options_.host->qemu = "/usr/bin/qemu";
  open();
  CreateWish wish;
  wish.tier = "microvm";
  const std::string id = create(wish);
  ASSERT_TRUE(run(fleet_->hibernate(me_, id)));
  LimitWish limits;
  limits.processes = 7;
  EXPECT_EQ(run(fleet_->set_limits(me_, id, limits)).error().field, "resource_limits.processes");
  limits = {};
  limits.memory_bytes = 700ULL << 20U;
  EXPECT_EQ(run(fleet_->set_limits(me_, id, limits)).error().field, "resource_limits.memory_mb");
  limits = {};
  limits.cpu = 2;
  EXPECT_TRUE(run(fleet_->set_limits(me_, id, limits)));
}

}  // namespace
}  // namespace caisson::control
