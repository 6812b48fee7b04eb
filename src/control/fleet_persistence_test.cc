// Volumes, sandboxes that stop and start, and what a new server finds.
#include <gtest/gtest.h>

#include "control/fleet_files_fixture_test.h"

namespace caisson::control {
namespace {

using test::FleetFiles;

TEST_F(FleetFiles, VolumesHaveALimitAndUsers) {
  open();
  const auto made = run(fleet_->set_volume(me_, "data", 1 << 20));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(run(fleet_->set_volume(me_, "data", 1)).error().field, "bytes_max");
  EXPECT_EQ(run(fleet_->set_volume(me_, "Data", 1 << 20)).error().field, "name");
  CreateWish wish;
  wish.volumes = {{"data", "/data", true}};
  const std::string id = create(wish);
  ASSERT_EQ(world_.requests.back().store_mounts.size(), 1U);
  EXPECT_TRUE(world_.requests.back().store_mounts[0].read_only);
  EXPECT_TRUE(world_.store.volumes.contains(world_.requests.back().store_mounts[0].name));
  const auto all = run(fleet_->volumes(me_));
  ASSERT_EQ(all->size(), 1U);
  EXPECT_EQ(all->front().sandboxes, std::vector{id});
  EXPECT_EQ(all->front().bytes, 3U);
  EXPECT_EQ(run(fleet_->remove_volume(me_, "data")).error().code, Errc::Busy);
  ASSERT_TRUE(run(fleet_->destroy(me_, id)));
  again();
  ASSERT_EQ(run(fleet_->volumes(me_))->size(), 1U);
  ASSERT_TRUE(run(fleet_->remove_volume(me_, "data")));
  EXPECT_TRUE(world_.store.volumes.empty());
  EXPECT_TRUE(run(fleet_->volumes(me_))->empty());
  world_.store.fails["volume"] = Error{Errc::StoreFull, "full", 0};
  EXPECT_EQ(run(fleet_->set_volume(me_, "data", 1 << 20)).error().code, Errc::StoreFull);
  EXPECT_EQ(store_.count(store::FileKind::Volume), 0U);
}

TEST_F(FleetFiles, APersistentSandboxStopsAndStarts) {
  open();
  const std::string id = persistent_sandbox("keep");
  const auto point = snap(id);
  ASSERT_TRUE(run(fleet_->stop_sandbox(me_, id)));
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Stopped);
  EXPECT_FALSE(world_.boxes.contains(id));
  EXPECT_TRUE(world_.store.uppers.contains(id));
  const auto call = run(fleet_->exec(me_, id, line("echo x")));
  ASSERT_FALSE(call);
  EXPECT_EQ(call.error().code, Errc::Busy);
  EXPECT_NE(call.error().message.find("start it first"), std::string::npos);
  EXPECT_EQ(run(fleet_->pause(me_, id)).error().code, Errc::Busy);
  EXPECT_EQ(run(fleet_->stat(me_, id, "a", true)).error().code, Errc::Busy);
  EXPECT_TRUE(run(fleet_->usage(me_, id)));
  again();  // another server finds it as it is
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Stopped);
  EXPECT_EQ(fleet_->get(me_, id)->name, "keep");
  const auto started = run(fleet_->start_sandbox(me_, id));
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_EQ(started->state, State::Running);
  EXPECT_TRUE(world_.requests.back().resume);
  EXPECT_EQ(world_.requests.back().id, id);
  EXPECT_EQ(world_.requests.back().stack.layers.size(), 1U);
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
  // A start that fails keeps its files.
  ASSERT_TRUE(run(fleet_->stop_sandbox(me_, id)));
  world_.store.fails["launch"] = Error{Errc::Exhausted, "no slot", 0};
  EXPECT_FALSE(run(fleet_->start_sandbox(me_, id)));
  world_.store.fails.clear();
  EXPECT_TRUE(world_.store.uppers.contains(id));
  ASSERT_TRUE(run(fleet_->start_sandbox(me_, id)));
  ASSERT_TRUE(run(fleet_->stop_sandbox(me_, id)));
  ASSERT_TRUE(run(fleet_->destroy(me_, id)));
  EXPECT_TRUE(world_.store.uppers.empty());
  EXPECT_EQ(fleet_->get(me_, id).error().code, Errc::NotFound);
  const std::string brief = create();
  EXPECT_EQ(run(fleet_->stop_sandbox(me_, brief)).error().code, Errc::Busy);
}

TEST_F(FleetFiles, WhatPersistsOutlivesServerLauncherAndHost) {
  open();
  const std::string id = persistent_sandbox();
  const std::string brief = create();
  run([](RunningFleet& fleet) -> awaitable<bool> {
    co_await fleet.stop("the server was stopped");
    co_return true;
  }(*fleet_));
  EXPECT_EQ(store_.records.at(id).state, store::RecordState::Stopped);
  EXPECT_EQ(store_.records.at(brief).state, store::RecordState::Ended);
  EXPECT_TRUE(world_.store.uppers.contains(id));
  world_.boxes.clear();
  again();
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Stopped);
  ASSERT_TRUE(run(fleet_->start_sandbox(me_, id)));
  // The launcher goes, and later the whole host.
  world_.boxes.at(id).guest->close();
  world_.boxes.clear();
  launcher_->watcher().on_lost();
  settle();
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Stopped);
  launcher_->watcher().on_back();
  settle();
  ASSERT_TRUE(run(fleet_->start_sandbox(me_, id)));
  close();
  world_.boxes.clear();
  options_.boot_id = "boot2";
  open();
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Stopped);
  EXPECT_TRUE(world_.store.uppers.contains(id));
  ASSERT_TRUE(run(fleet_->start_sandbox(me_, id)));
  // What ends by a limit is stopped, not gone.
  launcher_->end(id, engine::EndReason::Life);
  settle();
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Stopped);
  EXPECT_EQ(fleet_->get(me_, id)->end_reason, "expired");
}

TEST_F(FleetFiles, ACrashBetweenSealAndRowLosesNothing) {
  open();
  const std::string id = persistent_sandbox();
  ASSERT_TRUE(snap(id, "whole"));
  settle();
  // As it stands on the disk when the server dies right behind the seal: the intent, and a layer.
  SnapshotRecord making;
  making.id = SandboxId::random()->str();
  making.tenant = "red";
  making.sandbox = id;
  making.name = "cut";
  making.image = "host";
  making.making = true;
  making.boot = "boot1";
  making.stack = world_.boxes.at(id).stack;
  making.stack.layers.insert(making.stack.layers.begin(), "cutlayer");
  SnapshotRecord nothing = making;
  nothing.id = SandboxId::random()->str();
  nothing.name = "none";
  nothing.stack.layers.front() = "neverthere";
  const auto key = StateSeal::open(options_.state_key);
  close();
  store_.kept.push_back(key->seal(making.key(), 5, to_json(making)));
  store_.kept.push_back(key->seal(nothing.key(), 5, to_json(nothing)));
  world_.store.layers.insert("cutlayer");
  world_.store.layers.insert("nobodys");
  world_.store.uppers.insert(SandboxId::random()->str());
  world_.boxes.clear();
  open();
  ASSERT_TRUE(fleet_->get_snapshot(me_, "cut"));
  EXPECT_FALSE(fleet_->get_snapshot(me_, "none"));
  EXPECT_FALSE(world_.store.layers.contains("nobodys"));
  EXPECT_EQ(world_.store.uppers, std::set<std::string>{id});
  ASSERT_TRUE(run(fleet_->start_sandbox(me_, id)));
  EXPECT_EQ(world_.requests.back().stack.layers.front(), "cutlayer");
  // The same after the host itself went down: its files are there, the snapshot was never safe.
  close();
  std::erase_if(store_.kept, [](const auto& one) { return one.key.id != "x"; });
  making.id = SandboxId::random()->str();
  making.stack.layers.insert(making.stack.layers.begin(), "cutagain");
  store_.kept.push_back(key->seal(making.key(), 5, to_json(making)));
  world_.store.layers.insert("cutagain");
  world_.boxes.clear();
  options_.boot_id = "boot2";
  open();
  EXPECT_FALSE(fleet_->get_snapshot(me_, "cut"));
  ASSERT_TRUE(run(fleet_->start_sandbox(me_, id)));
  EXPECT_EQ(world_.requests.back().stack.layers.front(), "cutagain");
}

TEST_F(FleetFiles, AnotherBootRemovesWhatWasNotSafeAndALostLayerIsTold) {
  world_.store.fails["sync"] = Error{Errc::Internal, "no sync", 0};
  open();
  const std::string id = disk_sandbox();
  ASSERT_TRUE(snap(id, "unsafe"));
  settle();
  EXPECT_FALSE(fleet_->get_snapshot(me_, "unsafe")->durable);
  close();
  world_.store.fails.clear();
  open();  // the same boot: it is still there, and made safe
  until([&] { return fleet_->get_snapshot(me_, "unsafe")->durable; });
  world_.store.fails["sync"] = Error{Errc::Internal, "no sync", 0};
  ASSERT_TRUE(snap(id, "lost"));
  settle();
  close();
  world_.boxes.clear();
  options_.boot_id = "boot2";
  open();
  EXPECT_TRUE(fleet_->get_snapshot(me_, "unsafe"));
  EXPECT_FALSE(fleet_->get_snapshot(me_, "lost"));
  EXPECT_EQ(store_.actions("snapshot.lost"), 1U);
  close();
  world_.store.layers.clear();
  open();
  CreateWish wish;
  wish.snapshot = "unsafe";
  EXPECT_EQ(run(fleet_->create(me_, wish)).error().code, Errc::Gone);
  EXPECT_GE(store_.actions("files.broken"), 1U);
}

TEST_F(FleetFiles, ARecordThatSomebodyChangedIsNotUsed) {
  open();
  const std::string id = disk_sandbox();
  const auto made = snap(id, "mine");
  settle();
  close();
  for (auto& record : store_.kept) {
    if (record.key.id == made->id) record.key.tenant = "blue";
  }
  open();
  EXPECT_FALSE(fleet_->get_snapshot(me_, "mine"));
  EXPECT_FALSE(fleet_->get_snapshot(other_, "mine"));
  EXPECT_EQ(store_.actions("files.refused"), 1U);
}

TEST_F(FleetFiles, NothingIsAskedOfAStoreThatNobodyNeeds) {
  world_.store.fails["stored"] = Error{Errc::Unsupported, "no store here", 0};
  open();
  const std::string id = create();
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
  EXPECT_EQ(snap(id).error().code, Errc::Unsupported);
  again();
}

}  // namespace
}  // namespace caisson::control
