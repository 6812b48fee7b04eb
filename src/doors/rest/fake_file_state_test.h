// doors/rest/fake_file_state_test.h — the part of a fake fleet that images, snapshots and volumes
// need: one of each, and a memory of what was asked.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "doors/rest/fake_streams_test.h"

namespace caisson::rest::fake {

using control::Caller;

inline const std::string kSnapshotId(26, 'c');
inline const std::string kImage = "registry.example/team/python:3.12";

// Its items, then a failure, or silence.
class Pull final : public control::PullStream {
 public:
  Pull(std::deque<Item> items, bool ends, bool& dropped)
      : items_(std::move(items)), ends_(ends), dropped_(dropped) {}
  ~Pull() override { dropped_ = true; }
  awaitable<Result<Item>> next() override {
    if (items_.empty()) {
      if (!ends_) co_await for_ever();
      co_return failure(Errc::Protocol, "layer sha256:ab: the registry sent other bytes");
    }
    Item item = std::move(items_.front());
    items_.pop_front();
    co_return item;
  }

 private:
  std::deque<Item> items_;
  bool ends_;
  bool& dropped_;
};

class FileStateFleet : public control::Fleet {
 public:
  std::vector<std::string> calls;
  std::optional<Error> fails;  // what every call that acts says
  control::PullWish pulled;
  std::deque<control::PullStream::Item> pull_items;
  bool pull_ends = true;
  bool pull_dropped = false;
  std::string imported;
  control::BuildWish built;
  control::SnapshotWish snapshot_wish;
  control::ForkWish forked;
  control::UndoWish undone;
  control::DiffView changes;
  control::MergeView merged;
  bool has_snapshots = true;

  static Error unknown() { return Error{Errc::NotFound, "no such sandbox", 0, {}}; }

  // Not this door's.
  static Error not_here() { return Error{Errc::Unsupported, "this fake has no work tree", 0, {}}; }
  Result<std::shared_ptr<control::Spool>> spool(const Caller& /*caller*/) override {
    return std::unexpected(not_here());
  }
  awaitable<Result<control::ArchiveView>> put_archive(const Caller& /*caller*/, std::string /*id*/,
                                                      control::ArchiveWish /*wish*/) override {
    co_return std::unexpected(not_here());
  }
  awaitable<Result<std::string>> patch_since(
      const Caller& /*caller*/, std::string /*id*/,
      std::shared_ptr<const control::Baseline> /*baseline*/) override {
    co_return std::unexpected(not_here());
  }
  awaitable<Result<std::vector<control::FileView>>> find_files(
      const Caller& /*caller*/, std::string /*id*/, control::FindWish /*wish*/) override {
    co_return std::unexpected(not_here());
  }
  awaitable<Result<control::GrepView>> grep_files(const Caller& /*caller*/, std::string /*id*/,
                                                  control::GrepWish /*wish*/) override {
    co_return std::unexpected(not_here());
  }
  awaitable<Result<std::unique_ptr<control::SessionTurn>>> session_turn(
      const Caller& /*caller*/, std::string /*id*/, milliseconds /*wait*/) override {
    co_return std::unexpected(not_here());
  }
  awaitable<Result<control::SandboxView>> set_labels(
      const Caller& /*caller*/, std::string /*id*/,
      std::map<std::string, std::string> /*labels*/) override {
    co_return std::unexpected(not_here());
  }
  std::optional<Error> trouble(std::string_view id, std::string what) {
    calls.push_back(std::move(what));
    if (id != kId) return unknown();
    return fails;
  }
  control::SandboxView view() const {
    control::SandboxView out;
    out.id = kId;
    out.tenant = "default";
    out.record.tier = "native";
    out.limits.cpu_millis = 500;
    return out;
  }
  static control::ImageView image_view() {
    control::ImageView out;
    out.reference = kImage;
    out.digest = "sha256:ab";
    out.source = "pull";
    out.defaults.labels = {{"evil", "\xff\x1b"}};
    return out;
  }
  static control::SnapshotView snapshot_view() {
    control::SnapshotView out;
    out.id = kSnapshotId;
    out.name = "good";
    out.sandbox = kId;
    out.kind = engine::SnapshotKind::Cow;
    return out;
  }

#define CAISSON_FAKE_STATE(what) \
  calls.push_back(what);         \
  if (fails) co_return std::unexpected(*fails)
#define CAISSON_FAKE_BOX(what) \
  if (auto bad = trouble(id, what)) co_return std::unexpected(*bad)
  awaitable<Result<std::unique_ptr<control::PullStream>>> pull_image(
      const Caller&, control::PullWish wish) override {
    CAISSON_FAKE_STATE("pull " + wish.reference);
    pulled = std::move(wish);
    co_return std::make_unique<Pull>(pull_items, pull_ends, pull_dropped);
  }
  awaitable<Result<std::unique_ptr<control::ImageUpload>>> import_image(
      const Caller&, control::ImportWish wish) override;
  awaitable<Result<control::ImageView>> build_image(const Caller&,
                                                    control::BuildWish wish) override {
    CAISSON_FAKE_STATE("build " + wish.reference + " " + wish.snapshot);
    built = std::move(wish);
    co_return image_view();
  }
  std::vector<control::ImageView> images(const Caller&) override { return {image_view()}; }
  Result<control::ImageView> image(const Caller&, std::string_view reference) override {
    if (reference != kImage) return failure(Errc::NotFound, "no such image");
    return image_view();
  }
  awaitable<Result<void>> remove_image(const Caller&, std::string reference) override {
    CAISSON_FAKE_STATE("remove_image " + reference);
    co_return Result<void>{};
  }
  awaitable<Result<std::unique_ptr<control::ByteReader>>> export_image(
      const Caller&, std::string reference) override {
    CAISSON_FAKE_STATE("export " + reference);
    co_return std::make_unique<Reader>("layout bytes");
  }
  awaitable<Result<control::GarbageView>> collect_garbage(const Caller&) override {
    CAISSON_FAKE_STATE("gc");
    co_return control::GarbageView{3, 2, 1};
  }
  awaitable<Result<control::SnapshotView>> snapshot(const Caller&, std::string id,
                                                    control::SnapshotWish wish) override {
    CAISSON_FAKE_BOX("snapshot " + wish.name);
    snapshot_wish = std::move(wish);
    co_return snapshot_view();
  }
  std::vector<control::SnapshotView> snapshots(const Caller&,
                                               std::optional<std::string> sandbox) override {
    if (!has_snapshots || (sandbox && *sandbox != kId)) return {};
    return {snapshot_view()};
  }
  Result<control::SnapshotView> get_snapshot(const Caller&, std::string_view name) override {
    if (name != kSnapshotId && name != "good") return failure(Errc::NotFound, "no such snapshot");
    return snapshot_view();
  }
  awaitable<Result<void>> remove_snapshot(const Caller&, std::string name) override {
    CAISSON_FAKE_STATE("remove_snapshot " + name);
    co_return Result<void>{};
  }
  awaitable<Result<control::SandboxView>> fork(const Caller&, std::string id,
                                               control::ForkWish wish) override {
    CAISSON_FAKE_BOX("fork " + wish.name);
    forked = std::move(wish);
    co_return view();
  }
  awaitable<Result<control::UndoView>> undo(const Caller&, std::string id,
                                            control::UndoWish wish) override {
    CAISSON_FAKE_BOX("undo");
    undone = std::move(wish);
    co_return control::UndoView{kSnapshotId, undone.calls.value_or(0), 7};
  }
  control::PromoteWish promoted;
  awaitable<Result<control::SandboxView>> promote(const Caller&, std::string id,
                                                  control::PromoteWish wish) override {
    CAISSON_FAKE_BOX("promote");
    promoted = std::move(wish);
    co_return view();
  }
  policy::SandboxTier minimum_tier(std::string_view) const override {
    return policy::SandboxTier::Native;
  }
  awaitable<Result<control::DiffView>> diff(const Caller&, control::DiffWish wish) override {
    CAISSON_FAKE_STATE("diff " + wish.from + " " + wish.to + " " + wish.path);
    co_return changes;
  }
  awaitable<Result<std::unique_ptr<control::ByteReader>>> patch(const Caller&,
                                                                control::DiffWish wish) override {
    CAISSON_FAKE_STATE("patch " + wish.from + " " + wish.to + " " + wish.path);
    co_return std::make_unique<Reader>("diff --git a/x b/x\n");
  }
  awaitable<Result<control::MergeView>> merge(const Caller&, std::string id,
                                              control::MergeWish wish) override {
    CAISSON_FAKE_BOX("merge " + wish.from + (wish.end_processes ? " end" : ""));
    co_return merged;
  }
  awaitable<Result<control::VolumeView>> set_volume(const Caller&, std::string name,
                                                    std::uint64_t bytes_max) override {
    CAISSON_FAKE_STATE("volume " + name + " " + std::to_string(bytes_max));
    co_return control::VolumeView{name, "default", bytes_max, 0, 0, {}};
  }
  awaitable<Result<std::vector<control::VolumeView>>> volumes(const Caller&) override {
    CAISSON_FAKE_STATE("volumes");
    co_return std::vector<control::VolumeView>{{"cache", "default", 9, 1, 0, {kId}}};
  }
  awaitable<Result<void>> remove_volume(const Caller&, std::string name) override {
    CAISSON_FAKE_STATE("remove_volume " + name);
    co_return Result<void>{};
  }
  awaitable<Result<control::SandboxView>> stop_sandbox(const Caller&, std::string id) override {
    CAISSON_FAKE_BOX("stop");
    co_return view();
  }
  awaitable<Result<control::SandboxView>> start_sandbox(const Caller&, std::string id) override {
    CAISSON_FAKE_BOX("start_sandbox");
    co_return view();
  }
  awaitable<Result<engine::PoolFacts>> storage(const Caller&) override {
    CAISSON_FAKE_STATE("storage");
    engine::PoolFacts facts;
    facts.kind = "folder";
    facts.why = "mkfs.btrfs is missing";
    co_return facts;
  }
#undef CAISSON_FAKE_BOX
#undef CAISSON_FAKE_STATE
};

class Import final : public control::ImageUpload {
 public:
  explicit Import(FileStateFleet& fleet) : fleet_(fleet) {}
  awaitable<Result<void>> write(std::span<const std::byte> bytes) override {
    pending_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    co_return Result<void>{};
  }
  awaitable<Result<control::ImageView>> finish() override {
    fleet_.imported = pending_;
    co_return FileStateFleet::image_view();
  }

 private:
  FileStateFleet& fleet_;
  std::string pending_;
};

inline awaitable<Result<std::unique_ptr<control::ImageUpload>>> FileStateFleet::import_image(
    const Caller&, control::ImportWish wish) {
  calls.push_back("import " + wish.reference + " " + wish.pick.value_or("-"));
  if (fails) co_return std::unexpected(*fails);
  co_return std::make_unique<Import>(*this);
}

}  // namespace caisson::rest::fake
