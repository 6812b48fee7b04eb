#include "engine/native/supply.h"

#include <fcntl.h>

#include "engine/native/rootfs.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace caisson::engine::native {
namespace {

constexpr std::size_t kNetworksAhead = 4;
constexpr std::size_t kSlotsKept = 64;
constexpr std::size_t kUsedUpMax = 8;  // each is a dead process and a descriptor

}  // namespace

Result<void> Supply::open(int state, SlotTable::CleanUp clean_up) {
  state_ = state;
  clean_up_ = std::move(clean_up);
  if (!host_.privileged) return {};
  const UniqueFd launcher = TRY(sys::open_at(state, "launcher", O_RDONLY | O_DIRECTORY));
  table_ = TRY(SlotTable::open(launcher.get()));
  return {};
}

Result<void> Supply::sweep() {
  if (!table_) return {};
  return table_->sweep(clean_up_);
}

void Supply::close() noexcept {
  if (!table_) return;
  for (const Slot& slot : slots_) table_->release(slot.index);
  slots_.clear();
}

IdPlan Supply::id_plan(std::uint32_t slot, const LaunchRequest* request) const {
  IdPlan plan;
  if (host_.privileged) {
    plan.base = kSlotBase + slot * kIdsPerSlot;
    return plan;
  }
  CAISSON_ASSERT(request != nullptr);
  plan.kind = host_.sub_ids ? IdPlan::Kind::SubIds : IdPlan::Kind::Single;
  plan.tenant_uid = request->uid;
  plan.tenant_gid = request->gid;
  return plan;
}

Result<void> Supply::start_store(ReservedSlot& reserved, std::optional<FolderOwner> owner) {
  const IdPlan& ids = reserved.slot.ids;
  if (owner && !fits_store_map(*owner)) owner.reset();
  reserved.slot.folder_owner = owner;
  sys::IdMap users = store_map(ids, std::nullopt, 0);
  sys::IdMap groups = users;
  if (owner) {
    users = store_map(ids, owner->uid, owner->tenant_uid);
    groups = store_map(ids, owner->gid, owner->tenant_gid);
  }
  reserved.store =
      TRY(sys::PendingNamespace::start_user(users, groups, sys::NestedNamespaces::Allowed));
  return {};
}

Result<ReservedSlot> Supply::start_slot(const LaunchRequest* request,
                                        const std::vector<UniqueFd>* folders) {
  ReservedSlot reserved;
  if (table_) reserved.slot.index = TRY(table_->claim(clean_up_));
  reserved.slot.ids = id_plan(reserved.slot.index, request);
  const IdPlan& ids = reserved.slot.ids;
  reserved.users = TRY(
      sys::PendingNamespace::start_user(ids.users(), ids.groups(), sys::NestedNamespaces::Refused));
  if (!host_.privileged) return reserved;
  std::optional<FolderOwner> owner;
  if (folders != nullptr && !folders->empty())
    owner = TRY(owner_of(folders->front().get(), *request));
  TRY(start_store(reserved, owner));
  return reserved;
}

Result<Slot> Supply::finish(ReservedSlot reserved) {
  Slot& slot = reserved.slot;
  if (!reserved.users) return std::move(slot);  // it was ready
  UniqueFd users = TRY(reserved.users->finish());
  slot.user_namespace = TRY(sys::park(std::move(users)));
  retire(std::move(*reserved.users));
  constexpr unsigned kFlags = sys::kMountNoSuid | sys::kMountNoDev;
  UniqueFd store;
  if (reserved.store) {
    UniqueFd map = TRY(reserved.store->finish());
    retire(std::move(*reserved.store));
    store = TRY_IN("the state directory", sys::clone_mount_idmapped(state_, "", kFlags, map.get()));
    if (slot.folder_owner)
      slot.folder_namespace = TRY(sys::duplicate(map.get(), sys::kParkedFdMin));
    if (Stage::needed(host_)) slot.store_namespace = TRY(sys::park(std::move(map)));
  } else {
    store = TRY(sys::clone_mount(state_, "", kFlags));
  }
  slot.store = TRY(sys::park(std::move(store)));
  return std::move(slot);
}

Result<ReservedSlot> Supply::reserve(const LaunchRequest& request,
                                     const std::vector<UniqueFd>& folders) {
  ReservedSlot reserved;
  if (!slots_.empty()) {
    reserved.slot = std::move(slots_.back());
    slots_.pop_back();
    return reserved;
  }
  if (!next_slot_)
    next_slot_ = TRY(start_slot(&request, lifetime_ == Lifetime::OneShot ? &folders : nullptr));
  reserved = std::move(*next_slot_);
  next_slot_.reset();
  return reserved;
}

// A helper takes a moment to die: it is reaped when there is time, or when many wait.
void Supply::retire(sys::PendingNamespace used) {
  if (used_up_.size() >= kUsedUpMax) used_up_.clear();
  used_up_.push_back(std::move(used));
}

Result<UniqueFd> Supply::network() {
  if (networks_.empty()) networks_.push_back(TRY(sys::PendingNamespace::start_network()));
  sys::PendingNamespace pending = std::move(networks_.front());
  networks_.pop_front();
  auto made = pending.finish();
  retire(std::move(pending));
  if (!made) return std::unexpected(made.error().within("network namespace"));
  return made;
}

Result<void> Supply::prepare(const LaunchRequest& request, const std::vector<UniqueFd>& folders) {
  if (networks_.empty()) networks_.push_back(TRY(sys::PendingNamespace::start_network()));
  next_slot_ = TRY_IN("id range", start_slot(&request, &folders));
  return {};
}

Result<void> Supply::name(std::uint32_t slot, const SandboxId& id) {
  if (!table_) return {};
  return table_->name(slot, id);
}

void Supply::take_back(Slot slot) {
  if (!table_) return;
  (void)table_->clear(slot.index);
  if (lifetime_ == Lifetime::Service && slots_.size() < kSlotsKept && slot.user_namespace) {
    slots_.push_back(std::move(slot));
  } else {
    table_->release(slot.index);
  }
}

Result<bool> Supply::refill() {
  if (lifetime_ != Lifetime::Service) return false;
  if (slots_.empty()) {
    ReservedSlot reserved = TRY(start_slot(nullptr, nullptr));
    slots_.push_back(TRY(finish(std::move(reserved))));
    return true;
  }
  if (networks_.size() < kNetworksAhead) {
    networks_.push_back(TRY(sys::PendingNamespace::start_network()));
    return true;
  }
  used_up_.clear();
  return false;
}

}  // namespace caisson::engine::native
