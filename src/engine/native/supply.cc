#include "engine/native/supply.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "engine/native/rootfs.h"
#include "sys/file.h"
#include "sys/raw.h"

namespace caisson::engine::native {
namespace {

constexpr std::size_t kNetworksAhead = 4;
constexpr std::size_t kSlotsKept = 64;
constexpr std::size_t kSpentMax = 64;
constexpr std::size_t kMapsKept = 64;
constexpr std::size_t kUsedUpMax = 8;  // each is a dead process and a descriptor

}  // namespace

Result<ReservedSlot> begin_slot(std::uint32_t index, std::optional<FolderOwner> owner,
                                int settings) {
  ReservedSlot reserved;
  Slot& slot = reserved.slot;
  slot.index = index;
  slot.ids.base = kSlotBase + index * kIdsPerSlot;
  // Its owner is one of its own ids, so that the kernel counts no two sandboxes together, nor any
  // with the host's root.
  reserved.users = TRY(sys::PendingNamespace::start_user(slot.ids.users(), slot.ids.groups(),
                                                         sys::NestedNamespaces::Refused,
                                                         slot.ids.host_uid(kInitId), settings));
  if (owner && !fits_store_map(*owner)) owner.reset();
  slot.folder_owner = owner;
  sys::IdMap users = store_map(slot.ids, std::nullopt, 0);
  sys::IdMap groups = users;
  if (owner) {
    users = store_map(slot.ids, owner->uid, owner->tenant_uid);
    groups = store_map(slot.ids, owner->gid, owner->tenant_gid);
  }
  reserved.store =
      TRY(sys::PendingNamespace::start_user(users, groups, sys::NestedNamespaces::Allowed));
  return reserved;
}

Result<void> Supply::open(int state, SlotTable::CleanUp clean_up) {
  clean_up_ = std::move(clean_up);
  if (!host_.privileged) return {};
  table_ = TRY(SlotTable::open_in(state));
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

Result<ReservedSlot> Supply::start_slot(const LaunchRequest* request,
                                        const std::vector<UniqueFd>* folders) {
  if (table_) {
    std::optional<FolderOwner> owner;
    if (folders != nullptr && !folders->empty())
      owner = TRY(owner_of(folders->front().get(), *request));
    return begin_slot(TRY(table_->claim(clean_up_)), owner, settings_.next());
  }
  CAISSON_ASSERT(request != nullptr);
  ReservedSlot reserved;
  IdPlan& ids = reserved.slot.ids;
  ids.kind = host_.sub_ids ? IdPlan::Kind::SubIds : IdPlan::Kind::Single;
  ids.tenant_uid = request->uid;
  ids.tenant_gid = request->gid;
  reserved.users = TRY(
      sys::PendingNamespace::start_user(ids.users(), ids.groups(), sys::NestedNamespaces::Refused));
  return reserved;
}

Result<Slot> Supply::finish(ReservedSlot reserved) {
  Slot& slot = reserved.slot;
  if (reserved.users) {
    UniqueFd users = TRY(reserved.users->finish());
    slot.user_namespace = TRY(sys::park(std::move(users)));
    retire(std::move(*reserved.users));
  }
  if (reserved.store) {
    UniqueFd map = TRY(reserved.store->finish());
    retire(std::move(*reserved.store));
    if (slot.folder_owner && !slot.folder_namespace)
      slot.folder_namespace = TRY(sys::duplicate(map.get(), sys::kParkedFdMin));
    slot.store_namespace = TRY(sys::park(std::move(map)));
  }
  return std::move(slot);
}

Result<ReservedSlot> Supply::reserve(const LaunchRequest& request,
                                     const std::vector<UniqueFd>& folders) {
  ReservedSlot reserved;
  if (!slots_.empty()) {
    reserved.slot = std::move(slots_.back());
    slots_.pop_back();
    if (!reserved.slot.store_namespace) reserved.store = TRY(start_map(reserved.slot));
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

Result<sys::PendingNamespace> Supply::start_surroundings() {
  return sys::PendingNamespace::start_network(
      empty_mounts(host_) ? sys::Mounts::Empty : sys::Mounts::Shared, settings_.next());
}

Result<Supply::Around> Supply::surroundings() {
  sys::Surroundings made;
  if (!made_.empty()) {
    made = std::move(made_.back());
    made_.pop_back();
  } else {
    made = TRY_IN("network namespace", take_surroundings());
  }
  Around around;
  UniqueFd network = TRY(sys::park(std::move(made.network)));
  around.network = network.get();
  std::vector<UniqueFd> used;
  used.push_back(std::move(network));
  if (made.mounts && empty_mounts(host_)) {
    UniqueFd mounts = TRY(sys::park(std::move(made.mounts)));
    around.mounts = mounts.get();
    used.push_back(std::move(mounts));
  }
  if (made.ipc) {
    UniqueFd ipc = TRY(sys::park(std::move(made.ipc)));
    around.ipc = ipc.get();
    used.push_back(std::move(ipc));
  }
  spend(std::move(used));
  return around;
}

Result<sys::Surroundings> Supply::take_surroundings() {
  if (networks_.empty()) networks_.push_back(TRY(start_surroundings()));
  sys::PendingNamespace pending = std::move(networks_.front());
  networks_.pop_front();
  const auto take = [&]() -> Result<sys::Surroundings> {
    sys::Surroundings made;
    if (empty_mounts(host_)) made.mounts = TRY(pending.mounts());
    made.network = TRY(pending.finish());
    return made;
  };
  auto made = take();
  retire(std::move(pending));
  return made;
}

void Supply::spend(std::vector<UniqueFd> used) {
  if (spent_.size() >= kSpentMax) spent_.clear();
  for (UniqueFd& one : used) spent_.push_back(std::move(one));
}

Result<void> Supply::prepare(const LaunchRequest& request, const std::vector<UniqueFd>& folders,
                             bool has_surroundings) {
  if (!has_surroundings && networks_.empty()) networks_.push_back(TRY(start_surroundings()));
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
  fetch_map(slot);
  if (lifetime_ == Lifetime::Service && slots_.size() < kSlotsKept && slot.user_namespace) {
    slots_.push_back(std::move(slot));
  } else {
    table_->release(slot.index);
  }
}

void Supply::put_by(Slot& slot) {
  if (!table_ || lifetime_ != Lifetime::Service) return;
  slot.user_namespace = UniqueFd();
  UniqueFd map = std::move(slot.store_namespace);
  if (map && maps_.size() < kMapsKept) maps_[slot.index] = std::move(map);
}

Result<void> Supply::fetch_users(Slot& slot, pid_t init) const {
  if (slot.user_namespace) return {};
  // Its number cannot be another's as long as we have not reaped it; dead, it still shows this.
  UniqueFd users =
      TRY(sys::open_at(AT_FDCWD, "/proc/" + std::to_string(init) + "/ns/user", O_RDONLY));
  slot.user_namespace = TRY(sys::park(std::move(users)));
  return {};
}

Result<void> Supply::fetch(Slot& slot, pid_t init) {
  if (!table_) return {};
  TRY(fetch_users(slot, init));
  fetch_map(slot);
  return complete(slot);
}

Result<void> Supply::complete(Slot& slot) {
  if (slot.store_namespace) return {};
  sys::PendingNamespace pending = TRY(start_map(slot));
  UniqueFd map = TRY(pending.finish());
  retire(std::move(pending));
  slot.store_namespace = TRY(sys::park(std::move(map)));
  return {};
}

void Supply::fetch_map(Slot& slot) {
  const auto at = maps_.find(slot.index);
  if (at == maps_.end()) return;
  slot.store_namespace = std::move(at->second);
  maps_.erase(at);
}

Result<sys::PendingNamespace> Supply::start_map(const Slot& slot) {
  const sys::IdMap map = store_map(slot.ids, std::nullopt, 0);
  return sys::PendingNamespace::start_user(map, map, sys::NestedNamespaces::Allowed);
}

// The last one who closes does the work: that is the child, which waits until we have.
Result<void> Supply::close_slow() {
  std::erase_if(closers_, [](sys::Child& child) {
    const auto ended = child.try_wait();
    return !ended || ended->has_value();
  });
  sys::Pipe gate = TRY(sys::make_pipe());
  std::vector<int> kept{gate.read.get()};
  for (const UniqueFd& one : slow_) {
    if (kept.size() < sys::kErrandDescriptorsMax) kept.push_back(one.get());
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return sys_failure("fork", errno);
  if (pid == 0) {
    sys::become_errand(parent, kept);
    char byte = 0;
    (void)!::read(gate.read.get(), &byte, 1);
    ::_exit(0);
  }
  UniqueFd pidfd(sys::raw::pidfd_open(pid));
  if (!pidfd) return sys_failure("watch a child", errno);
  closers_.push_back(sys::Child::adopt(pid, TRY(sys::park(std::move(pidfd)))));
  slow_.clear();
  return {};  // and the gate closes
}

Result<bool> Supply::refill() {
  if (lifetime_ != Lifetime::Service) return false;
  if (slots_.empty()) {
    ReservedSlot reserved = TRY(start_slot(nullptr, nullptr));
    slots_.push_back(TRY(finish(std::move(reserved))));
    return true;
  }
  if (Slot& next = slots_.back(); !next.store_namespace) {
    TRY(complete(next));
    return true;
  }
  if (networks_.size() < kNetworksAhead) {
    networks_.push_back(TRY(start_surroundings()));
    return true;
  }
  used_up_.clear();
  spent_.clear();
  if (!slow_.empty()) TRY(close_slow());
  return false;
}

}  // namespace caisson::engine::native
