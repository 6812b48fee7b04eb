// File state at the start: what the records say against what is there. And what nobody needs any
// more, at every time.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "control/fleet_impl.h"
#include "control/shield.h"
#include "sys/file.h"

namespace caisson::control {
namespace {

using Entry = engine::StoreEntry;

// Layers of images stay for the next one that has them, until somebody collects the garbage.
bool is_image_layer(const std::string& name) { return name.starts_with("sha256-"); }

store::AuditEvent told(const std::string& tenant, std::string action, std::string object,
                       std::string sandbox = {}) {
  store::AuditEvent event;
  event.tenant = tenant;
  event.actor = "server";
  event.action = std::move(action);
  event.object = std::move(object);
  event.sandbox = std::move(sandbox);
  return event;
}

}  // namespace

Result<void> FleetImpl::open_files() {
  bool any = false;
  for (const auto kind :
       {store::FileKind::Image, store::FileKind::Snapshot, store::FileKind::Volume})
    any = any || !TRY_IN("file state", store_.files(kind)).empty();
  files_.seal = TRY_IN("file state",
                       StateSeal::open(options_.state_key, any ? NewKey::Refuse : NewKey::Make));
  files_.boot = options_.boot_id;
  if (files_.boot.empty()) {
    const auto text = sys::read_small(AT_FDCWD, "/proc/sys/kernel/random/boot_id");
    files_.boot = text ? text->substr(0, text->find('\n')) : "unknown";
  }
  if (!options_.images.folder.empty()) {
    files_.blobs = TRY_IN("images", image::BlobStore::open(options_.images.folder));
    files_.source = options_.images.source
                        ? options_.images.source
                        : registries(executor_, *files_.blobs, options_.images, resolver());
  }
  return load_files();
}

// A record that is not ours is left where it is, and nobody can use it.
Result<void> FleetImpl::load_files() {
  store::Store::Batch batch;
  for (const auto kind :
       {store::FileKind::Image, store::FileKind::Snapshot, store::FileKind::Volume}) {
    const auto rows = TRY_IN("file state", store_.files(kind));
    for (const store::FileRecord& row : rows) {
      const auto body = files_.seal->unseal(row);
      std::optional<Error> wrong;
      if (!body) {
        wrong = body.error();
      } else if (kind == store::FileKind::Image) {
        auto read = read_image(row.key, row.created, *body);
        read ? files_.images.put(*std::move(read)) : void(wrong = read.error());
      } else if (kind == store::FileKind::Snapshot) {
        auto read = read_snapshot(row.key, row.created, *body);
        read ? files_.snapshots.put(*std::move(read)) : void(wrong = read.error());
      } else {
        auto read = read_volume(row.key, row.created, *body);
        read ? files_.volumes.put(*std::move(read)) : void(wrong = read.error());
      }
      if (!wrong) continue;
      files_.unsure = true;
      store::AuditEvent event = told(row.key.tenant, "files.refused", row.key.id);
      event.outcome = store::Outcome::Denied;
      batch.audit.push_back(std::move(event));
      events_.add("files.refused", row.key.tenant, "",
                  {{"id", row.key.id}, {"message", wrong->message}});
    }
  }
  if (!batch.audit.empty()) post(std::move(batch));
  return {};
}

// Nothing is asked of the launcher's store where nothing can be in it.
awaitable<Result<void>> FleetImpl::check_files() {
  store::Store::Batch batch;
  drop_undurable(batch);
  if (!batch.audit.empty()) {
    const auto written = co_await record(std::move(batch));
    if (!written) co_return std::unexpected(written.error());
  }
  const bool disks = std::ranges::any_of(living_, [](const auto& one) {
    return one.second->kept.storage == engine::Storage::Disk ||
           one.second->kept.stack != engine::LayerStack{};
  });
  const bool any = disks || leftovers_ || !files_.images.empty() || !files_.snapshots.empty();
  if (!any) co_return Result<void>();
  const auto looked = co_await look();
  if (!looked) co_return std::unexpected(looked.error().within("file state"));
  co_await spend_what_nobody_wakes();
  sync_soon();
  co_return Result<void>();
}

// The host has started anew since: what was not yet safe on the disk may be anything.
void FleetImpl::drop_undurable(store::Store::Batch& batch) {
  std::vector<std::string> gone;
  for (const auto& [id, record] : files_.snapshots.all()) {
    if (record.durable || record.making || record.boot == files_.boot) continue;
    gone.push_back(id);
    batch.audit.push_back(told(record.tenant, "snapshot.lost", id, record.sandbox));
    events_.add("snapshot.lost", record.tenant, record.sandbox, {{"snapshot", id}});
  }
  forget_snapshots(gone, batch);
}

awaitable<Result<void>> FleetImpl::look() {
  if (files_.looked) co_return Result<void>();
  auto turn = co_await files_.looking.take();
  if (!turn) co_return std::unexpected(turn.error());
  if (files_.looked) co_return Result<void>();
  auto cleared = co_await clear_store();
  files_.looked = cleared.has_value();
  tidy_soon();
  co_return cleared;
}

awaitable<Result<void>> FleetImpl::clear_store() {
  const auto stored = co_await launcher_->stored();
  if (!stored) co_return std::unexpected(stored.error());
  std::set<std::string> there;
  for (const Entry& entry : *stored) {
    if (entry.kind == Entry::Kind::Layer) there.insert(entry.name);
    if (entry.kind == Entry::Kind::Memory) files_.memories.insert(entry.name);
  }
  if (settles()) {
    if (const auto told = co_await ask_stacks(); !told) co_return std::unexpected(told.error());
  }
  store::Store::Batch batch;
  settle_making(there, batch);
  files_.images.mark_broken(there);
  files_.snapshots.mark_broken(there);
  tell_broken(batch);
  if (!batch.audit.empty() || !batch.files.empty() || !batch.forgotten_files.empty()) {
    const auto written = co_await record(std::move(batch));
    if (!written) co_return std::unexpected(written.error());
  }
  files_.layers.insert(there.begin(), there.end());
  // Once calls come, a sandbox has a writable layer before it has a record, and a layer may be
  // wanted again while it goes: then tidy() does it, one by one.
  if (serving_ || files_.unsure) co_return Result<void>();
  const std::set<std::string> needed = referenced_layers();
  for (const Entry& entry : *stored) {
    const bool upper = entry.kind == Entry::Kind::Upper && !living_.contains(entry.name);
    const bool layer = entry.kind == Entry::Kind::Layer && !needed.contains(entry.name) &&
                       !files_.works.held(entry.name);
    if (!upper && !layer) continue;
    const auto dropped = co_await launcher_->drop(entry.kind, entry.name);
    if (layer && (dropped || dropped.error().code == Errc::NotFound))
      files_.layers.erase(entry.name);
  }
  co_return Result<void>();
}

bool FleetImpl::unsettled(const SnapshotRecord& record) const {
  return record.making && !files_.sealing->contains(record.id) &&
         (record.stack.layers.empty() || !files_.works.held(record.stack.layers.front()));
}

bool FleetImpl::settles() const {
  return std::ranges::any_of(files_.snapshots.all(),
                             [this](const auto& one) { return unsettled(one.second); });
}

// Of a sandbox that lives the launcher knows what it stands on, whatever became of a seal.
awaitable<Result<void>> FleetImpl::ask_stacks() {
  auto there = co_await launcher_->living();
  if (!there) co_return std::unexpected(there.error());
  for (engine::Living& one : *there) {
    const auto at = living_.find(one.id);
    if (at == living_.end() || at->second->state == State::Stopped) continue;
    const bool waits = std::ranges::any_of(files_.snapshots.all(), [&](const auto& row) {
      return row.second.sandbox == one.id && unsettled(row.second);
    });
    if (waits) at->second->kept.stack = std::move(one.stack);
  }
  co_return Result<void>();
}

// A server died between a seal and its row. The layer is there: so is the snapshot. It is not:
// nothing has happened.
void FleetImpl::settle_making(const std::set<std::string>& there, store::Store::Batch& batch) {
  std::vector<SnapshotRecord> making;
  for (const auto& [id, record] : files_.snapshots.all()) {
    if (unsettled(record)) making.push_back(record);
  }
  for (SnapshotRecord& record : making) {
    if (record.memory) {  // nobody can say whether all of it was there
      files_.snapshots.remove(record.id);
      batch.forgotten_files.push_back(record.key());
      continue;
    }
    const std::string layer = record.stack.layers.front();
    const auto at = living_.find(record.sandbox);
    engine::LayerStack below = record.stack;
    below.layers.erase(below.layers.begin());
    // One that stands elsewhere by now has gone on since: the row is of another day.
    const bool stale = at != living_.end() && at->second->kept.stack != record.stack &&
                       at->second->kept.stack != below;
    if (stale || !there.contains(layer)) {
      files_.snapshots.remove(record.id);
      batch.forgotten_files.push_back(record.key());
      continue;
    }
    record.making = false;
    // The launcher told the stack of one that lives. One that is stopped stood on the old stack:
    // with the new layer below it, its own files are the same, however it was sealed.
    if (at != living_.end() && at->second->state == State::Stopped) {
      at->second->kept.stack = record.stack;
      batch.sandboxes.push_back(stored(*at->second));
    }
    if (record.boot != files_.boot) {  // as a snapshot it was not yet safe
      files_.snapshots.remove(record.id);
      batch.forgotten_files.push_back(record.key());
      continue;
    }
    if (at != living_.end()) {
      KeptSpec& kept = at->second->kept;
      const bool stacked = std::ranges::find(kept.stack.layers, layer) != kept.stack.layers.end();
      if (!stacked) record.kind = engine::SnapshotKind::Cow;
      kept.head = record.id;
      batch.sandboxes.push_back(stored(*at->second));
    }
    files_.snapshots.put(record);
    batch.files.push_back(sealed_row(record));
    batch.audit.push_back(told(record.tenant, "snapshot.create", record.name, record.sandbox));
  }
}

void FleetImpl::tell_broken(store::Store::Batch& batch) {
  const auto tell = [&](const std::string& tenant, const std::string& what) {
    store::AuditEvent event = told(tenant, "files.broken", what);
    event.outcome = store::Outcome::Failed;
    batch.audit.push_back(std::move(event));
    events_.add("files.broken", tenant, "", {{"id", what}});
  };
  for (const auto& [id, record] : files_.snapshots.all()) {
    if (record.broken) tell(record.tenant, id);
  }
  for (const ImageRecord* record : files_.images.broken())
    tell(record->tenant, record->view.reference);
}

std::set<std::string> FleetImpl::referenced_layers() const {
  std::set<std::string> out = files_.images.layers();
  out.merge(files_.snapshots.layers());
  for (const auto& [id, sandbox] : living_)
    out.insert(sandbox->kept.stack.layers.begin(), sandbox->kept.stack.layers.end());
  return out;
}

// ----------------------------------------------------------------------------------------------
// while it runs

void FleetImpl::tidy_soon() {
  if (stopping_ || !files_.looked) return;
  files_.tidy_again = true;
  if (files_.tidying) return;
  files_.tidying = true;
  boost::asio::co_spawn(executor_, tidy(), boost::asio::detached);
}

// Hidden snapshots and checkpoints that nobody refers to, then the layers that only they needed.
awaitable<void> FleetImpl::tidy() {
  const std::weak_ptr<FleetImpl*> alive = alive_;
  // Whoever asked for it is in the middle of something.
  co_await boost::asio::post(executor_, boost::asio::use_awaitable);
  if (alive.expired() || stopping_) co_return;
  while (std::exchange(files_.tidy_again, false)) {
    std::set<std::string> heads;
    for (const auto& [id, sandbox] : living_)
      heads.insert({sandbox->kept.head, sandbox->kept.hibernated});
    std::vector<std::string> over;
    for (const std::string& id : files_.snapshots.forgotten(heads)) {
      const auto& layers = files_.snapshots.find(id)->stack.layers;
      if (layers.empty() || !files_.works.held(layers.front())) over.push_back(id);
    }
    for (const auto& [id, record] : files_.snapshots.all()) {
      if (record.checkpoint && !record.making && !living_.contains(record.sandbox))
        over.push_back(id);
    }
    if (!over.empty()) {
      files_.tidy_again = true;  // what came from these may be the next
      store::Store::Batch batch;
      forget_snapshots(over, batch);
      post(std::move(batch));
    }
    (void)co_await drop_layers(false);
    if (alive.expired() || stopping_) co_return;
    co_await drop_memories();
    if (alive.expired() || stopping_) co_return;
  }
  files_.tidying = false;
}

// Each alone, so that nobody unpacks one anew while it goes; judged in the same breath.
awaitable<std::uint64_t> FleetImpl::drop_layers(bool images) {
  if (files_.unsure) co_return 0;
  const std::weak_ptr<FleetImpl*> alive = alive_;
  const std::set<std::string> needed = referenced_layers();
  std::vector<std::string> over;
  for (const std::string& name : files_.layers) {
    if ((images || !is_image_layer(name)) && !needed.contains(name)) over.push_back(name);
  }
  std::uint64_t count = 0;
  for (const std::string& name : over) {
    const auto alone = co_await files_.works.alone(name);
    if (!alone || alive.expired() || stopping_) co_return count;
    if (files_.works.held(name) || referenced_layers().contains(name)) continue;
    files_.layers.erase(name);
    const auto dropped = co_await launcher_->drop(Entry::Kind::Layer, name);
    if (alive.expired()) co_return count;
    if (dropped) ++count;
    if (!dropped && dropped.error().code != Errc::NotFound) files_.layers.insert(name);
  }
  co_return count;
}

awaitable<Result<GarbageView>> FleetImpl::collect_garbage(const Caller& caller) {
  if (stopping_) co_return failure(Errc::Gone, "the server ends");
  co_return co_await shielded(executor_, collect_now(caller));
}

awaitable<Result<GarbageView>> FleetImpl::collect_now(Caller caller) {
  Audited audit(*this, row(caller, "image.gc", "", ""));
  const auto refuse = [](const Error& error) -> Result<GarbageView> {
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  if (files_.unsure)
    co_return co_await settle(
        audit, refuse(Error{Errc::Busy,
                            "some records could not be read when the server started, and what they "
                            "need is not known: see files.refused in the audit, mend or remove "
                            "them, and restart the server",
                            0}));
  auto turn = co_await files_.collecting.take();
  if (!turn) co_return co_await settle(audit, refuse(turn.error()));
  if (const auto looked = co_await look(); !looked)
    co_return co_await settle(audit, refuse(looked.error()));
  GarbageView out;
  const auto before = co_await launcher_->pool();
  out.layers = co_await drop_layers(true);
  const auto after = co_await launcher_->pool();
  if (before && after && after->free_bytes > before->free_bytes)
    out.bytes += after->free_bytes - before->free_bytes;
  if (files_.blobs) {
    std::set<image::Digest> needed;
    for (const std::string& text : files_.images.blobs()) {
      if (auto digest = image::Digest::parse(text); digest) needed.insert(*std::move(digest));
    }
    const auto removed = co_await files_.blobs->remove_unreferenced(std::move(needed), seconds(0));
    if (!removed) co_return co_await settle(audit, refuse(removed.error()));
    out.blobs = removed->blobs;
    out.bytes += removed->bytes;
  }
  audit.detail["layers"] = out.layers;
  audit.detail["blobs"] = out.blobs;
  co_return co_await settle(audit, Result<GarbageView>(out));
}

awaitable<Result<engine::PoolFacts>> FleetImpl::storage(const Caller& /*caller*/) {
  if (stopping_) co_return failure(Errc::Gone, "the server ends");
  co_return co_await launcher_->pool();
}

}  // namespace caisson::control
