// Snapshots: taking, keeping, finding and removing them.
//
// The row of a snapshot is durable before anybody hears of it. Between the seal and the row a
// server may die: then the launcher still knows on which stack a living sandbox stands, and what it
// does not stand on was promised to nobody. Only a persistent sandbox can lose its launcher in that
// moment and be started again, so for these a row that says "making" is durable before the seal.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/id.h"
#include "control/fleet_code.h"
#include "control/fleet_impl.h"
#include "control/sandbox_spec.h"
#include "control/shield.h"
#include "control/text.h"

namespace caisson::control {
namespace {

std::unexpected<Error> no_snapshot(std::string_view what) {
  return failure(Errc::NotFound, fmt::format("snapshot '{}' does not exist", cut_text(what, 64)));
}

// A seal that has not ended yet: whoever looks at the store leaves its row alone.
class UnderWay {
 public:
  UnderWay(std::shared_ptr<std::set<std::string>> all, std::string id)
      : all_(std::move(all)), id_(std::move(id)) {
    all_->insert(id_);
  }
  ~UnderWay() { all_->erase(id_); }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  std::shared_ptr<std::set<std::string>> all_;
  std::string id_;
};

// A sync and whatever its caller does next would wait for each other in the file system: a fork is
// launched, a command begins. It comes a moment later, and one does for all that were sealed since.
constexpr milliseconds kSyncDelay{25};

// Neither yes nor no came back.
bool unanswered(Errc code) {
  return code == Errc::LauncherGone || code == Errc::Gone || code == Errc::Protocol ||
         code == Errc::TimedOut;
}

}  // namespace

SnapshotRecord FleetImpl::draft(const Sandbox& sandbox, std::string id, const std::string& layer) {
  SnapshotRecord out;
  out.id = std::move(id);
  out.tenant = sandbox.tenant;
  out.sandbox = sandbox.id;
  out.parent = sandbox.kept.head;
  out.image = sandbox.kept.image;
  out.defaults = sandbox.kept.defaults;
  out.stack = sandbox.kept.stack;
  out.stack.layers.insert(out.stack.layers.begin(), layer);
  out.base_layers = sandbox.kept.base_layers;
  out.making = true;
  files_.latest = out.created = std::max(store::wall_now(), files_.latest + 1);
  out.boot = files_.boot;
  return out;
}

store::FileRecord FleetImpl::sealed_row(const SnapshotRecord& record) const {
  return files_.seal->seal(record.key(), record.created, to_json(record));
}

Result<void> FleetImpl::may_seal(const Sandbox& sandbox) const {
  if (sandbox.state == State::Ended) return std::unexpected(explain(sandbox, Error{}));
  if (sandbox.state == State::Stopped) return std::unexpected(awake(sandbox).error());
  if (files_.snapshots.count(sandbox.tenant) >= kSnapshotsMax)
    return failure(Errc::Exhausted,
                   fmt::format("{} snapshots are there; remove one first", kSnapshotsMax));
  TRY(has_room(sandbox.tenant, 0));
  if (sandbox.kept.stack.layers.size() >= engine::kLayersMax)
    return failure(Errc::Busy,
                   "its stack has as many layers as it may have; they become one as soon as "
                   "nothing runs in it: let its processes end, and try again");
  return {};
}

awaitable<Result<SnapshotRecord>> FleetImpl::seal(SandboxPtr sandbox, SealWish wish,
                                                  Audited* audit) {
  if (const auto looked = co_await look(); !looked) co_return std::unexpected(looked.error());
  // With its init asleep nothing could be stacked, and another kernel's files not be written out.
  // Who puts it away has woken it, and has the turn.
  if (wish.memory != SealMemory::Ends) {
    if (const auto up = co_await wake(sandbox); !up) co_return std::unexpected(up.error());
  }
  if (const auto may = may_seal(*sandbox); !may) co_return std::unexpected(may.error());
  const auto layer = SandboxId::random();
  const auto id = SandboxId::random();
  if (!layer || !id) co_return std::unexpected(layer ? id.error() : layer.error());
  SnapshotRecord made = draft(*sandbox, id->str(), layer->str());
  made.name = wish.named.name;
  made.labels = std::move(wish.named.labels);
  made.checkpoint = wish.checkpoint;
  made.hidden = wish.hidden;
  if (wish.memory != SealMemory::None) {
    if (const auto named = begin_memory(*sandbox, wish, made); !named)
      co_return std::unexpected(named.error());
  }
  const UnderWay under_way(files_.sealing, made.id);
  files_.snapshots.put(made);  // its layers are in use from here on
  Result<engine::Sealed> sealed;
  if (const auto intended = co_await intend(*sandbox, made); intended) {
    sealed = made.memory ? co_await seal_standing(sandbox, made, layer->str(), wish.memory)
                         : co_await seal_or_copy(sandbox, layer->str(), wish.copy);
  } else {
    sealed = failure(Errc::StoreFull, intended.error().message);  // nothing was sealed
  }
  if (!sealed) {
    give_up(*sandbox, made, sealed.error());
    co_return std::unexpected(sealed.error());
  }
  if (!made.memory || !made.memory->files) files_.layers.insert(layer->str());
  made.kind = sealed->kind;
  made.bytes = sealed->bytes;
  auto kept = co_await keep_sealed(sandbox, std::move(made), wish.row, audit);
  if (!kept && wish.memory == SealMemory::Ends) {
    (void)co_await goes_on(sandbox);
    tidy_soon();  // what was saved of it is not in use any more
  }
  co_return kept;
}

// What was refused did not happen. Of what was not answered nobody knows before the next look at
// the store: until then the row stays, because the sandbox's files may lie in that layer.
void FleetImpl::give_up(const Sandbox& sandbox, const SnapshotRecord& made, const Error& error) {
  if (unanswered(error.code)) {
    files_.looked = false;
    return;
  }
  files_.snapshots.remove(made.id);
  store::Store::Batch undone;
  undone.forgotten_files.push_back(made.key());
  if (sandbox.kept.persistent) post(std::move(undone));
}

// For a persistent sandbox durable before the seal: its launcher may die in the middle of it.
awaitable<Result<void>> FleetImpl::intend(const Sandbox& sandbox, const SnapshotRecord& making) {
  if (!sandbox.kept.persistent) co_return Result<void>();
  store::Store::Batch intent;
  intent.files.push_back(sealed_row(making));
  co_return co_await record(std::move(intent));
}

// While its row is on the way its parent may go, and then the row is written once more: both times
// it must say that the seal is there.
awaitable<Result<SnapshotRecord>> FleetImpl::keep_sealed(SandboxPtr sandbox, SnapshotRecord made,
                                                         SealRow row, Audited* audit) {
  if (const SnapshotRecord* drafted = files_.snapshots.find(made.id)) made.parent = drafted->parent;
  made.sealed = true;
  files_.snapshots.put(made);
  sandbox->kept.head = made.id;
  // The writable layer itself has become the sealed one; by the other ways it stays as it is.
  if (made.kind == engine::SnapshotKind::Stacked) sandbox->kept.stack = made.stack;
  store::Store::Batch batch;
  batch.files.push_back(sealed_row(made));
  if (sandbox->state != State::Ended) batch.sandboxes.push_back(stored(*sandbox));
  if (audit != nullptr) {
    audit->detail["snapshot"] = made.id;
    audit->detail["kind"] = engine::to_string(made.kind);
    audit->judge(nullptr);
    batch.audit.push_back(audit->row);
  }
  Result<void> written;
  if (row == SealRow::Behind) {
    post(std::move(batch));  // the row of the call itself is waited for
  } else {
    written = co_await record(std::move(batch));
  }
  if (audit != nullptr) audit->written();
  if (const SnapshotRecord* known = files_.snapshots.find(made.id)) made.parent = known->parent;
  if (!written) {
    files_.snapshots.remove(made.id);
    if (sandbox->kept.head == made.id) sandbox->kept.head = made.parent;
    tidy_soon();
    co_return std::unexpected(written.error());
  }
  made.making = made.sealed = false;
  files_.snapshots.put(made);
  sync_soon();
  flatten_soon(sandbox);
  co_return made;
}

awaitable<Result<engine::Sealed>> FleetImpl::seal_or_copy(SandboxPtr sandbox, std::string layer,
                                                          bool copy) {
  Result<engine::Sealed> sealed = failure(Errc::Busy, "its files are in memory");
  if (sandbox->kept.storage == engine::Storage::Disk) {
    sealed = co_await launcher_->seal(sandbox->id, layer);
    // An interpreter that only waits is no reason to copy files.
    const bool busy = !sealed && sealed.error().code == Errc::Busy;
    if (busy && co_await FleetCode::rest(sandbox)) {
      sealed = co_await launcher_->seal(sandbox->id, layer);
      FleetCode::warm(*this, sandbox);
    }
    if (sealed || sealed.error().code != Errc::Busy || !copy) co_return sealed;
  }
  co_return co_await copy_files(std::move(sandbox), std::move(layer));
}

// Its processes stand still for as long as it takes, and go on whatever came of it.
awaitable<Result<engine::Sealed>> FleetImpl::copy_files(SandboxPtr sandbox, std::string layer) {
  auto turn = co_await files_.works.job_turn();
  if (!turn) co_return std::unexpected(turn.error());
  if (sandbox->changing)
    co_return failure(Errc::Busy, "sandbox '" + sandbox->id + "' is being changed; try again");
  const bool frozen = sandbox->state == State::Paused;
  sandbox->changing = true;  // a pause or resume in the middle would end the standstill, or not
  if (!frozen) {
    const auto froze = co_await launcher_->freeze(sandbox->id);
    if (!froze) {
      sandbox->changing = false;
      co_return std::unexpected(froze.error());
    }
  }
  auto copied = co_await copy_upper(sandbox, std::move(layer), *std::move(turn));
  if (!frozen) {
    const auto thawed = co_await launcher_->thaw(sandbox->id);
    if (!thawed && copied) copied = std::unexpected(thawed.error());
  }
  sandbox->changing = false;
  co_return copied;
}

// Of one that stands still.
awaitable<Result<engine::Sealed>> FleetImpl::copy_upper(SandboxPtr sandbox, std::string layer,
                                                        Turns::Turn turn) {
  const std::string root = wire::kLayerRoot;
  LayerJob job;
  job.kind = wire::JobKind::Flatten;
  job.layers = 1;
  job.bytes_max = kCopyBytesMax;
  job.entries_max = kCopyFilesMax;
  job.layer = layer;
  engine::StoreMount upper;
  upper.kind = engine::StoreMount::Kind::Upper;
  upper.at = root + "/in/0";
  upper.name = sandbox->id;
  engine::StoreMount target;
  target.kind = engine::StoreMount::Kind::Target;
  target.at = root + "/out";
  target.bytes_max = 2 * kCopyBytesMax;  // what the files weigh, and their folders
  job.mounts = {std::move(upper), std::move(target)};
  auto copied = co_await files_.works.run(std::move(job), std::move(turn));
  if (!copied && (copied.error().code == Errc::TooLarge || copied.error().code == Errc::Exhausted))
    co_return failure(Errc::Busy,
                      fmt::format("its files are too many to be copied while its processes stand "
                                  "still ({} MiB, {} files at most); create the sandbox with "
                                  "storage: disk, or let its processes end first",
                                  kCopyBytesMax >> 20U, kCopyFilesMax));
  if (!copied) co_return std::unexpected(copied.error());
  co_return engine::Sealed{engine::SnapshotKind::Copied, copied->bytes};
}

awaitable<Result<SnapshotView>> FleetImpl::snapshot(const Caller& caller, std::string id,
                                                    SnapshotWish wish) {
  auto sandbox = find(caller, id);
  if (!sandbox) co_return std::unexpected(sandbox.error());
  co_return co_await shielded(executor_, snapshot_now(caller, *sandbox, std::move(wish)));
}

awaitable<Result<SnapshotView>> FleetImpl::snapshot_now(Caller caller, SandboxPtr kept,
                                                        SnapshotWish wish) {
  const Use sandbox(std::move(kept));
  Audited audit(*this, row(caller, "snapshot.create", sandbox->id, wish.name));
  tell_volumes(*sandbox, audit);
  const auto refuse = [](const Error& error) -> Result<SnapshotView> {
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  if (const auto good = check_name_and_labels(wish.name, wish.labels); !good)
    co_return co_await settle(audit, refuse(good.error()));
  auto turn = co_await sandbox->files->take();
  if (!turn) co_return co_await settle(audit, refuse(turn.error()));
  if (!wish.name.empty() && files_.snapshots.named(caller.tenant, wish.name))
    co_return co_await settle(
        audit, refuse(Error{Errc::AlreadyExists,
                            "name: a snapshot '" + wish.name + "' is there already", 0, "name"}));
  SealWish want;
  if (wish.memory) want.memory = SealMemory::GoesOn;
  want.named = std::move(wish);
  const auto made = co_await seal(sandbox.ptr(), std::move(want), &audit);
  if (!made && audit.settled()) co_return refuse(made.error());
  if (!made) co_return co_await settle(audit, refuse(explain(*sandbox, made.error())));
  events_.add("snapshot.created", made->tenant, made->sandbox,
              {{"snapshot", made->id}, {"name", made->name}});
  co_return snapshot_view(*made);
}

std::vector<SnapshotView> FleetImpl::snapshots(const Caller& caller,
                                               std::optional<std::string> sandbox) {
  return files_.snapshots.list(caller.tenant, sandbox);
}

Result<SnapshotView> FleetImpl::get_snapshot(const Caller& caller, std::string_view snapshot) {
  const SnapshotRecord* found = files_.snapshots.find(caller.tenant, snapshot);
  if (found == nullptr) return no_snapshot(snapshot);
  return snapshot_view(*found);
}

Result<SnapshotRecord> FleetImpl::usable_snapshot(const Caller& caller,
                                                  std::string_view what) const {
  const SnapshotRecord* found = files_.snapshots.find(caller.tenant, what);
  if (found == nullptr) return no_snapshot(what);
  if (found->broken)
    return failure(Errc::Gone, fmt::format("snapshot '{}': a layer of it is missing; it cannot be "
                                           "used any more",
                                           cut_text(what, 64)));
  if (found->memory && found->memory->files)
    return failure(Errc::Unsupported,
                   fmt::format("snapshot '{}': its files are of one piece with its processes; say "
                               "memory: true",
                               cut_text(what, 64)));
  return *found;
}

awaitable<Result<void>> FleetImpl::remove_snapshot(const Caller& caller, std::string snapshot) {
  const SnapshotRecord* found = files_.snapshots.find(caller.tenant, snapshot);
  if (found == nullptr) co_return no_snapshot(snapshot);
  co_return co_await shielded(executor_, remove_snapshot_now(caller, found->id));
}

awaitable<Result<void>> FleetImpl::remove_snapshot_now(Caller caller, std::string id) {
  Audited audit(*this, row(caller, "snapshot.remove", "", id));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  const SnapshotRecord* found = files_.snapshots.find(caller.tenant, id);
  if (found == nullptr) co_return co_await settle(audit, Result<void>(no_snapshot(id)));
  audit.row.sandbox = found->sandbox;
  const SnapshotRecord before = *found;
  audit.judge(nullptr);
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  forget_snapshots({id}, batch);
  auto written = co_await record(std::move(batch));
  audit.written();
  if (!written) {
    files_.snapshots.put(before);  // it is still there; who came from it comes from its parent
    co_return std::unexpected(written.error());
  }
  events_.add("snapshot.removed", before.tenant, before.sandbox, {{"snapshot", id}});
  tidy_soon();
  co_return Result<void>();
}

// Out of the tree; what stood on one stands on its parent.
void FleetImpl::forget_snapshots(const std::vector<std::string>& ids, store::Store::Batch& batch) {
  for (const std::string& id : ids) {
    const SnapshotRecord* found = files_.snapshots.find(id);
    if (found == nullptr) continue;
    const std::string parent = found->parent;
    batch.forgotten_files.push_back(found->key());
    for (const SnapshotRecord& child : files_.snapshots.remove(id))
      batch.files.push_back(sealed_row(child));
    for (const auto& [other, sandbox] : living_) {
      if (sandbox->kept.head != id) continue;
      sandbox->kept.head = parent;
      batch.sandboxes.push_back(stored(*sandbox));
    }
  }
  // A child that goes in the same breath is forgotten and not written again.
  std::erase_if(batch.files, [&](const store::FileRecord& one) {
    return std::ranges::find(batch.forgotten_files, one.key) != batch.forgotten_files.end();
  });
}

void FleetImpl::sync_soon() {
  if (files_.syncing || stopping_) return;
  files_.syncing = true;
  boost::asio::co_spawn(executor_, sync_all(), boost::asio::detached);
}

// One sync makes everything durable that was sealed before it.
awaitable<void> FleetImpl::sync_all() {
  const std::weak_ptr<FleetImpl*> alive = alive_;
  for (;;) {
    boost::asio::steady_timer moment(executor_, kSyncDelay);
    co_await moment.async_wait(boost::asio::use_awaitable);
    if (alive.expired()) co_return;
    std::vector<std::string> waiting;
    for (const auto& [id, record] : files_.snapshots.all()) {
      if (!record.durable && !record.making) waiting.push_back(id);
    }
    if (waiting.empty() || stopping_) break;
    const auto synced = co_await launcher_->sync_store();
    if (alive.expired()) co_return;
    if (!synced) break;  // the next snapshot tries again
    const auto there = co_await launcher_->stored();
    if (alive.expired()) co_return;
    std::map<std::string, std::uint64_t> weights;
    for (const engine::StoreEntry& one : there.value_or(std::vector<engine::StoreEntry>())) {
      if (one.kind == engine::StoreEntry::Kind::Layer) weights.emplace(one.name, one.bytes);
    }
    store::Store::Batch batch;
    for (const std::string& id : waiting) {
      SnapshotRecord* record = files_.snapshots.find(id);
      if (record == nullptr) continue;
      record->durable = true;
      const auto& layers = record->stack.layers;
      if (const auto at = layers.empty() ? weights.end() : weights.find(layers.front());
          at != weights.end() && !(record->memory && record->memory->files))
        record->bytes = at->second;
      batch.files.push_back(sealed_row(*record));
    }
    if (!batch.files.empty()) post(std::move(batch));
  }
  files_.syncing = false;
}

}  // namespace caisson::control
