// Moments in which nobody knows what happened: a caller who hangs up in the middle of a seal, a
// launcher that does not answer, a record that cannot be read. Nothing is lost and nothing dropped.
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include "control/fleet_files_fixture_test.h"

namespace caisson::control {
namespace {

using test::FakeAnswer;
using test::FakeJob;
using test::FleetFiles;

TEST_F(FleetFiles, WhoHangsUpDuringACheckpointLeavesItWhole) {
  open();
  CreateWish wish;
  wish.checkpoint = Checkpoints::EachCall;
  const std::string id = create(wish);
  world_.store.seal_waits = std::make_shared<engine::Wakeup>(context_.get_executor());
  boost::asio::cancellation_signal hang_up;
  bool over = false;
  boost::asio::co_spawn(
      context_, fleet_->make_folder(me_, id, "d", true),
      boost::asio::bind_cancellation_slot(
          hang_up.slot(), [&](const std::exception_ptr&, const Result<void>&) { over = true; }));
  until([&] { return layers() == 1; });
  hang_up.emit(boost::asio::cancellation_type::terminal);
  until([&] { return over; });
  EXPECT_TRUE(fleet_->snapshots(me_, id).empty()) << "it is still under way";
  world_.store.seal_waits->wake();
  until([&] { return fleet_->snapshots(me_, id).size() == 1; });
  world_.store.seal_waits.reset();
  ASSERT_TRUE(run(fleet_->make_folder(me_, id, "d", true)));
  settle();
  EXPECT_EQ(world_.boxes.at(id).stack.layers.size(), 2U);
  EXPECT_EQ(parse_kept(id).stack, world_.boxes.at(id).stack);
}

TEST_F(FleetFiles, ASealWithoutAnAnswerIsSettledByTheStore) {
  open();
  const std::string id = persistent_sandbox();
  world_.store.sealed_but = Error{Errc::Gone, "no answer", 0};
  EXPECT_EQ(snap(id, "unknown").error().code, Errc::Gone);
  EXPECT_EQ(store_.count(store::FileKind::Snapshot), 1U);
  world_.store.sealed_but.reset();
  ASSERT_TRUE(snap(id, "next"));
  EXPECT_TRUE(fleet_->get_snapshot(me_, "unknown"));
  EXPECT_EQ(world_.boxes.at(id).stack.layers.size(), 2U);
  EXPECT_EQ(parse_kept(id).stack, world_.boxes.at(id).stack);
  // The launcher goes with it; what was sealed is there when the sandbox starts again.
  world_.store.sealed_but = Error{Errc::LauncherGone, "away", 0};
  EXPECT_FALSE(snap(id, "last"));
  const std::string top = world_.boxes.at(id).stack.layers.front();
  world_.store.sealed_but.reset();
  world_.boxes.at(id).guest->close();
  world_.boxes.clear();
  launcher_->watcher().on_lost();
  launcher_->watcher().on_back();
  settle();
  EXPECT_TRUE(fleet_->get_snapshot(me_, "last"));
  ASSERT_TRUE(run(fleet_->start_sandbox(me_, id)));
  EXPECT_EQ(world_.requests.back().stack.layers.front(), top);
  EXPECT_EQ(world_.requests.back().stack.layers.size(), 3U);
  // One that did not happen is forgotten.
  world_.store.fails["seal"] = Error{Errc::Protocol, "what?", 0};
  EXPECT_FALSE(snap(id, "never"));
  world_.store.fails.clear();
  ASSERT_TRUE(snap(id, "after"));
  EXPECT_FALSE(fleet_->get_snapshot(me_, "never"));
}

TEST_F(FleetFiles, ARowOfAnotherDayChangesNoStack) {
  open();
  const std::string id = persistent_sandbox();
  ASSERT_TRUE(snap(id));
  ASSERT_TRUE(run(fleet_->stop_sandbox(me_, id)));
  const auto stack = parse_kept(id).stack;
  SnapshotRecord old;
  old.id = SandboxId::random()->str();
  old.tenant = "red";
  old.sandbox = id;
  old.image = "host";
  old.making = true;
  old.boot = "boot1";
  old.stack = stack;
  old.stack.layers = {"oldlayer", "elsewhere"};
  const auto key = StateSeal::open(options_.state_key);
  close();
  store_.kept.push_back(key->seal(old.key(), 5, to_json(old)));
  world_.store.layers.insert("oldlayer");
  open();
  EXPECT_EQ(parse_kept(id).stack, stack);
  EXPECT_FALSE(fleet_->get_snapshot(me_, old.id));
  ASSERT_TRUE(run(fleet_->start_sandbox(me_, id)));
  EXPECT_EQ(world_.requests.back().stack, stack);
}

TEST_F(FleetFiles, NothingIsDroppedWhileARecordCannotBeRead) {
  open();
  const std::string id = disk_sandbox();
  const auto made = snap(id, "mine");
  ASSERT_TRUE(run(fleet_->destroy(me_, id)));
  settle();
  close();
  auto kept = store_.kept;
  for (auto& record : store_.kept) record.key.tenant = "blue";
  open();
  settle();
  EXPECT_EQ(layers(), 1U);
  EXPECT_EQ(run(fleet_->collect_garbage(me_)).error().code, Errc::Busy);
  close();
  store_.kept = kept;
  open();
  EXPECT_TRUE(fleet_->get_snapshot(me_, "mine"));
  EXPECT_TRUE(run(fleet_->collect_garbage(me_)));
  // Nor when it is the record of a sandbox.
  const std::string box = persistent_sandbox();
  close();
  const std::string spec = std::exchange(store_.records.at(box).spec, "{");
  world_.boxes.clear();
  open();
  settle();
  EXPECT_TRUE(world_.store.uppers.contains(box));
  EXPECT_EQ(run(fleet_->collect_garbage(me_)).error().code, Errc::Busy);
  close();
  store_.records.at(box).spec = spec;
  open();
  EXPECT_TRUE(run(fleet_->start_sandbox(me_, box)));
  // And without its key a server does not start at all.
  close();
  ASSERT_EQ(::unlink(options_.state_key.c_str()), 0);
  LauncherOpener opener = [this](engine::LauncherChannel::Watcher watcher)
      -> Result<std::unique_ptr<engine::LauncherChannel>> {
    return std::make_unique<test::FakeLauncher>(context_.get_executor(), world_,
                                                std::move(watcher));
  };
  const auto opened = run(open_fleet(context_.get_executor(), options_, opener, store_));
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("put it back"), std::string::npos);
  EXPECT_EQ(layers(), 1U);
}

TEST_F(FleetFiles, AMergeEndsProcessesBeforeItSeals) {
  open();
  const std::string id = disk_sandbox();
  const auto fork = run(fleet_->fork(me_, id, {}));
  ASSERT_TRUE(fork);
  ProcessWish wish;
  wish.exec.command = "sleep 1000";
  const auto process = run(fleet_->start(me_, id, wish));
  ASSERT_TRUE(process) << process.error().message;
  world_.store.on_job = [](FakeJob&) {
    return FakeAnswer().entry(wire::EntryKind::Added, "workspace/y").done();
  };
  // Something that nobody can end: what it writes behind the seal would be lost.
  world_.store.processes.insert(id);
  const auto busy = run(fleet_->merge(me_, id, {"sandbox:" + fork->id, true}));
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, Errc::Busy);
  EXPECT_NE(busy.error().message.find("end_processes"), std::string::npos);
  EXPECT_TRUE(guest(id).processes.at(process->id).ended);
  world_.store.processes.erase(id);
  EXPECT_TRUE(run(fleet_->merge(me_, id, {"sandbox:" + fork->id, true})));
}

TEST_F(FleetFiles, WhatACopyFrozeIsThawedByTheNextServer) {
  open();
  const std::string copied = create();
  const std::string paused = create();
  ASSERT_TRUE(run(fleet_->pause(me_, paused)));
  close();
  world_.boxes.at(copied).frozen = true;
  open();
  EXPECT_EQ(fleet_->get(me_, copied)->state, State::Running);
  EXPECT_FALSE(world_.boxes.at(copied).frozen);
  EXPECT_EQ(fleet_->get(me_, paused)->state, State::Paused);
  EXPECT_TRUE(world_.boxes.at(paused).frozen);
}

TEST_F(FleetFiles, WhatDidNotStopIsStoppedAgain) {
  open();
  const std::string id = persistent_sandbox();
  world_.store.fails["stop"] = Error{Errc::Internal, "it does not die", 0};
  EXPECT_FALSE(run(fleet_->stop_sandbox(me_, id)));
  EXPECT_FALSE(run(fleet_->stop_sandbox(me_, id)));
  EXPECT_FALSE(run(fleet_->start_sandbox(me_, id)));
  world_.store.fails.clear();
  EXPECT_TRUE(run(fleet_->stop_sandbox(me_, id)));
  EXPECT_FALSE(world_.boxes.contains(id));
  EXPECT_TRUE(run(fleet_->start_sandbox(me_, id)));
}

TEST_F(FleetFiles, ATenantKeepsOnlySoMuch) {
  open();
  ASSERT_TRUE(run(fleet_->set_volume(me_, "most", 63ULL << 30U)));
  const auto more = run(fleet_->set_volume(me_, "more", 2ULL << 30U));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Errc::Exhausted);
  EXPECT_NE(more.error().message.find("remove some"), std::string::npos);
  EXPECT_TRUE(run(fleet_->set_volume(other_, "more", 2ULL << 30U)));
  const std::string id = disk_sandbox();
  const auto first = snap(id);
  ASSERT_TRUE(first);
  until([&] { return fleet_->get_snapshot(me_, first->id)->durable; });  // its size is known then
  ASSERT_TRUE(run(fleet_->set_volume(me_, "most", (64ULL << 30U) - 5)));
  EXPECT_EQ(snap(id).error().code, Errc::Exhausted);
  EXPECT_EQ(run(fleet_->fork(me_, id, {})).error().code, Errc::Exhausted);
  ASSERT_TRUE(run(fleet_->set_volume(me_, "most", 1ULL << 30U)));
  EXPECT_TRUE(snap(id));
}

}  // namespace
}  // namespace caisson::control
