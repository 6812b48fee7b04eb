// Snapshots, forks, undo and comparisons. With a launcher that the test plays.
#include <gtest/gtest.h>

#include <algorithm>

#include "control/fleet_files_fixture_test.h"

namespace caisson::control {
namespace {

using engine::SnapshotKind;
using test::FakeAnswer;
using test::FakeJob;
using test::FleetFiles;

TEST_F(FleetFiles, ASnapshotIsOneMoreLayerAndSaysHowItWasTaken) {
  open();
  const std::string id = disk_sandbox();
  const auto first = snap(id, "first");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->kind, SnapshotKind::Stacked);
  EXPECT_EQ(first->layers, 1U);
  EXPECT_EQ(first->sandbox, id);
  EXPECT_FALSE(first->consistency.empty());
  EXPECT_EQ(store_.actions("snapshot.create"), 1U);
  world_.store.processes.insert(id);
  const auto second = snap(id);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->kind, SnapshotKind::Cow);
  EXPECT_EQ(second->parent, first->id);
  EXPECT_EQ(second->layers, 2U);
  EXPECT_EQ(world_.boxes.at(id).stack.layers.size(), 1U);  // by cow the sandbox keeps its own
  until([&] { return fleet_->get_snapshot(me_, first->id)->durable; });
  EXPECT_GE(world_.store.synced, 1);
  EXPECT_EQ(fleet_->snapshots(me_, std::nullopt).size(), 2U);
  EXPECT_EQ(fleet_->snapshots(me_, "other").size(), 0U);
  // A name is taken once, and found as an id is.
  EXPECT_EQ(snap(id, "first").error().code, Errc::AlreadyExists);
  EXPECT_EQ(fleet_->get_snapshot(me_, "first")->id, first->id);
  EXPECT_EQ(snap(id, "No Good").error().field, "name");
}

TEST_F(FleetFiles, ForeignFilesAreTheSameAsNone) {
  open();
  const std::string id = disk_sandbox();
  const auto mine = snap(id, "first");
  ASSERT_TRUE(run(fleet_->set_volume(me_, "data", 1 << 20)));
  EXPECT_TRUE(fleet_->snapshots(other_, std::nullopt).empty());
  EXPECT_EQ(fleet_->get_snapshot(other_, mine->id).error().code, Errc::NotFound);
  EXPECT_EQ(fleet_->get_snapshot(other_, "first").error().code, Errc::NotFound);
  EXPECT_EQ(run(fleet_->remove_snapshot(other_, mine->id)).error().code, Errc::NotFound);
  EXPECT_EQ(run(fleet_->snapshot(other_, id, {})).error().code, Errc::NotFound);
  EXPECT_EQ(run(fleet_->fork(other_, id, {})).error().code, Errc::NotFound);
  EXPECT_EQ(run(fleet_->undo(other_, id, {})).error().code, Errc::NotFound);
  EXPECT_EQ(run(fleet_->diff(other_, {"snapshot:" + mine->id, "image:host", "/"})).error().code,
            Errc::NotFound);
  CreateWish wish;
  wish.snapshot = mine->id;
  EXPECT_EQ(run(fleet_->create(other_, wish)).error().code, Errc::NotFound);
  EXPECT_TRUE(run(fleet_->volumes(other_))->empty());
  EXPECT_EQ(run(fleet_->remove_volume(other_, "data")).error().code, Errc::NotFound);
  CreateWish with;
  with.volumes = {{"data", "/data", false}};
  EXPECT_EQ(run(fleet_->create(other_, with)).error().code, Errc::NotFound);
  EXPECT_TRUE(run(fleet_->create(me_, with)));
}

TEST_F(FleetFiles, FilesInMemoryAreCopiedWhileProcessesStandStill) {
  open();
  const std::string id = create();
  bool frozen = false;
  world_.store.on_job = [&](FakeJob& job) {
    frozen = world_.boxes.at(id).frozen;
    EXPECT_EQ(job.job.kind, wire::JobKind::Flatten);
    EXPECT_EQ(job.job.bytes_max, kCopyBytesMax);
    EXPECT_EQ(job.request.store_mounts.at(0).kind, engine::StoreMount::Kind::Upper);
    EXPECT_EQ(job.request.store_mounts.at(0).name, id);
    return FakeAnswer().done();
  };
  const auto made = snap(id);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->kind, SnapshotKind::Copied);
  EXPECT_TRUE(frozen);
  EXPECT_FALSE(world_.boxes.at(id).frozen);
  // Beyond the bound: 409 with the remedy, and it runs again.
  world_.store.on_job = [](FakeJob&) {
    return FakeAnswer().failed(wire::LayerError::TooLarge, "too much");
  };
  const auto busy = snap(id);
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, Errc::Busy);
  EXPECT_NE(busy.error().message.find("storage: disk"), std::string::npos);
  EXPECT_FALSE(world_.boxes.at(id).frozen);
  EXPECT_EQ(layers(), 1U);
  EXPECT_EQ(fleet_->snapshots(me_, std::nullopt).size(), 1U);
  // One that was paused stays so.
  world_.store.on_job = nullptr;
  ASSERT_TRUE(run(fleet_->pause(me_, id)));
  ASSERT_TRUE(snap(id));
  EXPECT_TRUE(world_.boxes.at(id).frozen);
}

TEST_F(FleetFiles, AToolThatLiesOrStallsLeavesNothing) {
  open();
  const std::string id = create();
  const auto attempt = [&](std::function<FakeAnswer(FakeJob&)> answer) {
    world_.store.on_job = std::move(answer);
    const auto made = snap(id);
    EXPECT_FALSE(made);
    settle();
    EXPECT_EQ(layers(), 0U);
    EXPECT_TRUE(world_.store.making.empty());
    EXPECT_EQ(world_.boxes.size(), 1U);
    EXPECT_FALSE(world_.boxes.at(id).frozen);
    return made ? Errc::Internal : made.error().code;
  };
  EXPECT_EQ(attempt([](FakeJob&) { return FakeAnswer(); }), Errc::Gone);
  EXPECT_EQ(attempt([](FakeJob&) {
              FakeAnswer out;
              out.bytes = std::string(100, 'x');
              return out;
            }),
            Errc::Protocol);
  EXPECT_EQ(attempt([](FakeJob&) {
              return FakeAnswer().entry(wire::EntryKind::Added, "a/../../b").done();
            }),
            Errc::Protocol);
  EXPECT_EQ(attempt([](FakeJob&) { return FakeAnswer().done().done(); }), Errc::Protocol);
  EXPECT_EQ(attempt([](FakeJob&) { return FakeAnswer().failed(wire::LayerError::Io, "disk"); }),
            Errc::Internal);
  world_.store.fails["commit"] = Error{Errc::StoreFull, "full", 0};
  EXPECT_EQ(attempt(nullptr), Errc::StoreFull);
}

TEST_F(FleetFiles, WhateverFailsAtASnapshotLeavesNothing) {
  open();
  const std::string id = persistent_sandbox();
  ASSERT_TRUE(snap(id, "before"));
  settle();
  world_.store.fails["seal"] = Error{Errc::Internal, "seal fails", 0};
  EXPECT_EQ(snap(id, "again").error().code, Errc::Internal);
  world_.store.fails.clear();
  settle();
  EXPECT_EQ(store_.count(store::FileKind::Snapshot), 1U);
  EXPECT_FALSE(fleet_->get_snapshot(me_, "again"));
  store_.fails = true;
  EXPECT_EQ(snap(id, "again").error().code, Errc::StoreFull);
  store_.fails = false;
  const auto made = snap(id, "again");
  EXPECT_TRUE(made) << made.error().message;
}

// A server that dies in this moment goes by the last row.
TEST_F(FleetFiles, AParentThatGoesWhileTheRowIsWrittenTakesNothingBack) {
  open();
  const std::string id = persistent_sandbox();
  ASSERT_TRUE(snap(id, "parent"));
  until([&] { return fleet_->get_snapshot(me_, "parent")->durable; });
  world_.store.seal_waits = std::make_shared<engine::Wakeup>(context_.get_executor());
  SnapshotWish wish;
  wish.name = "child";
  const auto made = begin(fleet_->snapshot(me_, id, wish));
  settle();
  store_.holds = true;
  world_.store.seal_waits->wake();
  until([&] { return store_.held.size() == 1; });
  const auto removed = begin(fleet_->remove_snapshot(me_, "parent"));
  until([&] { return store_.held.size() == 2; });
  EXPECT_FALSE(fleet_->get_snapshot(me_, "child"));
  const auto row = std::ranges::find_if(store_.kept, [](const store::FileRecord& one) {
    return one.key.kind == store::FileKind::Snapshot;
  });
  ASSERT_NE(row, store_.kept.end());
  const auto body = StateSeal::open(options_.state_key)->unseal(*row);
  ASSERT_TRUE(body) << body.error().message;
  EXPECT_FALSE(body->at("making").as_bool());
  EXPECT_EQ(body->at("parent").as_string(), "");
  store_.tell();
  until([&] { return made->has_value() && removed->has_value(); });
  ASSERT_TRUE(**made) << (*made)->error().message;
  EXPECT_EQ((*made)->value().parent, "");
  EXPECT_TRUE(**removed);
  world_.store.seal_waits.reset();
}

TEST_F(FleetFiles, AForkIsANewSandboxOnTheSameFiles) {
  open();
  CreateWish wish;
  wish.storage = engine::Storage::Disk;
  wish.name = "parent";
  wish.labels = {{"team", "a"}, {std::string(kPublicLabel), "true"}};
  wish.limits.timeout_seconds = 100;
  wish.budget.max_tokens = 1000;
  wish.tools = {{"shell_exec"}};
  const std::string id = create(wish);
  ASSERT_TRUE(run(fleet_->record_usage(me_, id, {400, 0})));
  ForkWish fork;
  fork.labels = {{"try", "1"}};
  const auto made = run(fleet_->fork(me_, id, fork));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_NE(made->id, id);
  EXPECT_EQ(made->parent, id);
  EXPECT_EQ(made->tools, std::vector<std::string>{"shell_exec"});
  EXPECT_EQ(made->labels.size(), 2U);
  EXPECT_FALSE(is_public(*made)) << "it was the parent that was shown to everybody";
  EXPECT_LE(made->limits.life_us, 100'000'000U);
  EXPECT_EQ(world_.boxes.at(made->id).stack, world_.boxes.at(id).stack);
  EXPECT_EQ(store_.actions("sandbox.fork"), 1U);
  EXPECT_TRUE(fleet_->snapshots(me_, std::nullopt).empty());  // what it stands on is nobody's
  // What the fork spends, the parent has spent; and it had only what was left.
  ASSERT_TRUE(run(fleet_->record_usage(me_, made->id, {500, 0})));
  EXPECT_EQ(run(fleet_->usage(me_, id))->tokens, 900);
  const auto kept = parse_kept(made->id);
  EXPECT_EQ(kept.budget.max_tokens, 600);
  EXPECT_EQ(parse_kept(id).budget.used_tokens, 900);
}

TEST_F(FleetFiles, AHundredForksAtOnceShareASeal) {
  options_.max_concurrent = 200;
  open();
  const std::string id = disk_sandbox();
  std::vector<std::shared_ptr<std::optional<Result<SandboxView>>>> forks;
  for (int i = 0; i < 100; ++i) forks.push_back(begin(fleet_->fork(me_, id, {})));
  until(
      [&] { return std::ranges::all_of(forks, [](const auto& one) { return one->has_value(); }); });
  std::set<std::string> ids;
  for (const auto& one : forks) {
    ASSERT_TRUE(**one) << (**one).error().message;
    ids.insert((**one)->id);
  }
  EXPECT_EQ(ids.size(), 100U);
  EXPECT_LE(layers(), 3U);
  // When all of them are gone, so is what only they needed.
  for (const std::string& one : ids) ASSERT_TRUE(run(fleet_->destroy(me_, one)));
  ASSERT_TRUE(run(fleet_->destroy(me_, id)));
  until([&] { return layers() == 0; });
  EXPECT_EQ(store_.count(store::FileKind::Snapshot), 0U);
}

TEST_F(FleetFiles, AFailedForkLeavesNothing) {
  open();
  const std::string id = disk_sandbox();
  for (int step = 0; step < 6; ++step) {
    world_.store.fails_in = step;
    const auto made = run(fleet_->fork(me_, id, {}));
    world_.store.fails_in = -1;
    settle();
    if (made) {
      ASSERT_TRUE(run(fleet_->destroy(me_, made->id)));
      continue;
    }
    EXPECT_EQ(world_.boxes.size(), 1U) << step;
    EXPECT_EQ(fleet_->list(me_).size(), 1U);
  }
}

TEST_F(FleetFiles, CreateFromASnapshotStandsOnIt) {
  open();
  const std::string id = disk_sandbox();
  const auto point = snap(id, "point");
  CreateWish wish;
  wish.snapshot = "point";
  const auto made = run(fleet_->create(me_, wish));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->parent, point->id);
  EXPECT_EQ(world_.boxes.at(made->id).stack.layers.size(), 1U);
  // Its row goes, the layer stays as long as somebody stands on it.
  ASSERT_TRUE(run(fleet_->remove_snapshot(me_, "point")));
  ASSERT_TRUE(run(fleet_->destroy(me_, id)));
  settle();
  EXPECT_EQ(layers(), 1U);
  ASSERT_TRUE(run(fleet_->destroy(me_, made->id)));
  until([&] { return layers() == 0; });
  EXPECT_EQ(run(fleet_->create(me_, wish)).error().code, Errc::NotFound);
  wish.image = "host";
  EXPECT_EQ(run(fleet_->create(me_, wish)).error().field, "snapshot");
}

TEST_F(FleetFiles, UndoGoesBackOverCalls) {
  open();
  CreateWish wish;
  wish.checkpoint = Checkpoints::EachCall;
  const std::string id = create(wish);
  EXPECT_EQ(world_.requests.back().storage, engine::Storage::Disk);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run(fleet_->make_folder(me_, id, "d", true)));
  ASSERT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
  EXPECT_EQ(layers(), 4U);
  UndoWish wrong;
  EXPECT_EQ(run(fleet_->undo(me_, id, wrong)).error().code, Errc::InvalidArgument);
  wrong.calls = 5;
  EXPECT_EQ(run(fleet_->undo(me_, id, wrong)).error().field, "calls");
  UndoWish two;
  two.calls = 2;
  world_.store.processes.insert(id);
  EXPECT_EQ(run(fleet_->undo(me_, id, two)).error().code, Errc::Busy);
  two.end_processes = true;
  const auto back = run(fleet_->undo(me_, id, two));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->calls, 2U);
  EXPECT_EQ(back->left, 2U);
  EXPECT_EQ(world_.boxes.at(id).stack.layers.size(), 3U);
  until([&] { return layers() == 3U; });
  UndoWish one;
  one.calls = 2;
  ASSERT_TRUE(run(fleet_->undo(me_, id, one)));
  EXPECT_EQ(world_.boxes.at(id).stack.layers.size(), 1U);
  EXPECT_EQ(store_.actions("sandbox.undo"), 5U);
}

TEST_F(FleetFiles, OnlySoManyCheckpointsAreKeptAndLongStacksBecomeShort) {
  open();
  CreateWish wish;
  wish.checkpoint = Checkpoints::EachCall;
  const std::string id = create(wish);
  for (std::size_t i = 0; i < kCheckpointsKept + 8; ++i)
    ASSERT_TRUE(run(fleet_->make_folder(me_, id, "d", true)));
  EXPECT_EQ(fleet_->snapshots(me_, id).size(), kCheckpointsKept);
  until([&] { return world_.boxes.at(id).stack.layers.size() < kStackFlattenAt; });
  bool flattened = false;
  for (const FakeJob& job : world_.store.jobs)
    flattened =
        flattened || (job.job.kind == wire::JobKind::Flatten && job.job.layers > kStackFlattenAt);
  EXPECT_TRUE(flattened);
  UndoWish all;
  all.calls = static_cast<std::uint32_t>(kCheckpointsKept);
  EXPECT_TRUE(run(fleet_->undo(me_, id, all)));
}

TEST_F(FleetFiles, DiffTellsWhatDiffersAndIsBounded) {
  open();
  const std::string id = disk_sandbox();
  const auto before = snap(id);
  world_.store.on_job = [](FakeJob& job) {
    EXPECT_EQ(job.job.kind, wire::JobKind::Diff);
    EXPECT_EQ(job.job.a_layers, 0U);  // shared
    EXPECT_EQ(job.job.b_layers, 1U);
    EXPECT_EQ(job.prefix, "workspace/src");
    return FakeAnswer()
        .entry(wire::EntryKind::Modified, "workspace/src/b", 3)
        .entry(wire::EntryKind::Added, "workspace/src/a", 2)
        .done();
  };
  const auto told =
      run(fleet_->diff(me_, {"snapshot:" + before->id, "sandbox:" + id, "/workspace/src"}));
  ASSERT_TRUE(told) << told.error().message;
  ASSERT_EQ(told->changes.size(), 2U);
  EXPECT_EQ(told->changes[0].path, "/workspace/src/a");
  EXPECT_EQ(told->changes[0].kind, ChangeKind::Added);
  EXPECT_EQ(run(fleet_->diff(me_, {"x", "y", "/"})).error().field, "from");
  EXPECT_EQ(run(fleet_->diff(me_, {"image:host", "image:host", "/../x"})).error().code,
            Errc::Denied);
  EXPECT_EQ(run(fleet_->diff(me_, {"image:nobody/has", "image:host", "/"})).error().code,
            Errc::NotFound);
}

TEST_F(FleetFiles, AMergeIsAllOrNothing) {
  open();
  const std::string id = disk_sandbox();
  const auto fork = run(fleet_->fork(me_, id, {}));
  ASSERT_TRUE(fork);
  world_.store.on_job = [](FakeJob& job) {
    EXPECT_EQ(job.job.kind, wire::JobKind::Merge);
    wire::LayerDone done{};
    done.conflicts = 1;
    return FakeAnswer().entry(wire::EntryKind::Conflict, "workspace/x").done(done);
  };
  const auto stack = world_.boxes.at(id).stack;
  auto clash = run(fleet_->merge(me_, id, {"sandbox:" + fork->id, false}));
  ASSERT_TRUE(clash) << clash.error().message;
  EXPECT_EQ(clash->conflicts, std::vector<std::string>{"/workspace/x"});
  EXPECT_TRUE(clash->applied.empty());
  EXPECT_EQ(world_.boxes.at(id).stack.layers.size(), stack.layers.size() + 1);  // only the seal
  world_.store.on_job = [](FakeJob&) {
    return FakeAnswer().entry(wire::EntryKind::Added, "workspace/y").done();
  };
  const auto merged = run(fleet_->merge(me_, id, {"sandbox:" + fork->id, false}));
  ASSERT_TRUE(merged) << merged.error().message;
  ASSERT_EQ(merged->applied.size(), 1U);
  EXPECT_EQ(merged->base.substr(0, 9), "snapshot:");
  EXPECT_EQ(world_.boxes.at(id).stack.layers.size(), stack.layers.size() + 3);
  // Busy when something runs, and nothing was changed by it.
  world_.store.processes.insert(id);
  EXPECT_EQ(run(fleet_->merge(me_, id, {"sandbox:" + fork->id, false})).error().code, Errc::Busy);
}

TEST_F(FleetFiles, APatchComesOutOfABoxAndTheStageGoes) {
  open();
  const std::string id = disk_sandbox();
  const auto before = snap(id);
  auto patch = run(fleet_->patch(me_, {"snapshot:" + before->id, "sandbox:" + id, "/"}));
  // The box of the test has no git and no file of it.
  EXPECT_FALSE(patch);
  until([&] { return world_.boxes.size() == 1; });
  until([&] { return layers() == 2; });  // the snapshot's and the sandbox's own
}

}  // namespace
}  // namespace caisson::control
