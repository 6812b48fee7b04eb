// File state of living sandboxes: their place in the store, seals, other stacks.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "engine/native/restack.h"
#include "engine/native/tier.h"
#include "guest/carrier_blob.h"
#include "guest/layer_blob.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace caisson::engine::native {
namespace {

constexpr seconds kFreezeWait{1};
constexpr std::size_t kLayerNamesMax = 256;
constexpr std::size_t kInitAlone = 1;

bool needs_store(const LaunchRequest& request) {
  return !request.stack.host || !request.stack.layers.empty() || request.storage == Storage::Disk ||
         !request.store_mounts.empty();
}

// The mounts through which the root can be written, as paths inside.
std::vector<std::string> written_mounts(const LaunchRequest& request,
                                        const std::vector<std::string>& system_folders) {
  std::vector<std::string> paths = request.writable;
  for (const Alias& alias : request.aliases) paths.push_back(alias.at);
  if (request.root != RootMode::Writable) {
    if (has_own_workspace(request)) paths.emplace_back(kOwnWorkspace);
    return paths;
  }
  paths.emplace_back("/");
  if (request.stack.host) paths.insert(paths.end(), system_folders.begin(), system_folders.end());
  return paths;
}

std::vector<std::string> kept_mounts(const LaunchRequest& request) {
  std::vector<std::string> paths{"/proc", "/dev", "/tmp", "/run"};
  for (const StoreMount& mount : request.store_mounts) paths.push_back(mount.at);
  return paths;
}

}  // namespace

Result<Pool*> NativeTier::pool() {
  if (pool_) return &*pool_;
  if (!host().privileged || options_.lifetime != Lifetime::Service) {
    return failure(Errc::Unsupported,
                   "images, snapshots and volumes need a server that was started by root");
  }
  pool_ = TRY_IN("store", Pool::open(state_.get(),
                                     {options_.pool_bytes, home_mounts_.get(), own_mounts_.get()}));
  return &*pool_;
}

RootfsSources NativeTier::rootfs_sources() {
  RootfsSources sources{
      host(),
      {host(), stage_, state_.get(), pool_ ? &*pool_ : nullptr, image_->skeleton, image_->seam},
      image_->system_folders,
      [this] { return need_devices(); },
      home_mounts_.get(),
      own_mounts_.get(),
      -1,
      upper_of_};
  return sources;
}

Result<int> NativeTier::program(Program program) {
  if (program == Program::Init) return parts_->init.get();
  if (program == Program::Carrier) {
    if (!carrier_program_) {
      UniqueFd made = TRY(sys::sealed_memfd("caisson-carrier", guest::carrier_program(), 0111));
      carrier_program_ = TRY(sys::park(std::move(made)));
    }
    return carrier_program_.get();
  }
  if (!layer_program_) {
    UniqueFd made = TRY(sys::sealed_memfd("caisson-layer", guest::layer_program(), 0111));
    layer_program_ = TRY(sys::park(std::move(made)));
  }
  return layer_program_.get();
}

// ----------------------------------------------------------------------------------------------
// places in the store

Result<void> NativeTier::make_places(const LaunchRequest& request) {
  if (!needs_store(request)) return {};
  Pool* store = TRY(pool());
  const std::string upper = Pool::kUppers + request.id;
  // A launcher that died between two steps may have left none, or one without its limit.
  if (request.storage == Storage::Disk && !(request.resume && store->has(upper)))
    TRY_IN("storage", store->make(upper, request.limits.disk_bytes));
  if (request.resume) TRY_IN("storage", store->limit(upper, request.limits.disk_bytes));
  for (const StoreMount& mount : request.store_mounts) {
    if (mount.kind != StoreMount::Kind::Target) continue;
    const auto made =
        store->make(Pool::kMaking + request.id, store->limits() ? mount.bytes_max : 0);
    if (made) continue;
    remove_places(request.id);
    return made;
  }
  return {};
}

void NativeTier::remove_places(const std::string& id) {
  if (!pool_) return;
  for (const char* folder : {Pool::kUppers, Pool::kMaking}) {
    if (pool_->has(folder + id)) (void)pool_->remove(folder + id);
  }
}

Result<UniqueFd> NativeTier::upper_of(const Sandbox& sandbox, const LaunchRequest& request,
                                      const Slot& slot) {
  if (request.tier == policy::SandboxTier::Microvm)
    return failure(Errc::Unsupported, "a microVM's files cannot be read from outside");
  constexpr unsigned kFlags = sys::kMountNoSuid | sys::kMountNoDev | sys::kMountReadOnly;
  if (request.storage == Storage::Disk) {
    const RootfsSources sources = rootfs_sources();
    StoreView view(slot, sources.store);
    const UniqueFd upper = TRY(view.open(Pool::kUppers + request.id));
    return sys::clone_mount(upper.get(), "", kFlags);
  }
  if (sandbox.layer() < 0)
    return failure(Errc::Unsupported, "this sandbox's files cannot be read from outside");
  const sys::IdMap map{{sandbox.slot().ids.base, slot.ids.base, kIdsPerSlot}};
  auto pending = TRY(sys::PendingNamespace::start_user(map, map, sys::NestedNamespaces::Allowed));
  const UniqueFd ids = TRY(pending.finish());
  return sys::clone_mount_idmapped(sandbox.layer(), "", kFlags, ids.get());
}

// ----------------------------------------------------------------------------------------------
// seals and stacks

Result<Sealed> NativeTier::seal(Sandbox& sandbox, LaunchRequest& request, const std::string& layer,
                                Rest rest) {
  if (request.storage != Storage::Disk) {
    return failure(Errc::Busy, "the sandbox's files are in memory; create it with storage disk");
  }
  Pool* store = TRY(pool());
  const std::string upper = Pool::kUppers + request.id;
  const std::string sealed = Pool::kLayers + layer;
  if (store->has(sealed)) return failure(Errc::AlreadyExists, "layer '" + layer + "' exists");
  if (request.stack.layers.size() >= kLayersMax) {
    return failure(Errc::Exhausted, "the sandbox has " + std::to_string(kLayersMax) +
                                        " layers, its most: wait until they are made one");
  }
  if (rest == Rest::Held) {
    const auto bytes = store->bytes(upper);
    TRY(store->copy(upper, sealed));
    return Sealed{SnapshotKind::Cow, bytes ? *bytes : 0};
  }
  // Made before anything stands still: the file system may be busy with others.
  const std::string fresh = TRY_IN("storage", store->make_ready(request.limits.disk_bytes));
  const auto attempt = [&]() -> Result<Sealed> {
    // One that its owner has paused hears nothing of new rules until it goes on.
    const bool frozen = TRY(sandbox.groups().frozen());
    // Another kernel may hold back what was written: its init gives that out before it says Held.
    const bool silent =
        is_carried(request) && !frozen && (rest == Rest::Silent || sandbox.hold().has_value());
    if (is_carried(request) && !frozen && !silent)
      return failure(Errc::Busy, "its init does not answer");
    if (!is_carried(request) && !frozen && request.folders.empty() && sandbox.hold()) {
      // Where that cannot be, everything stands as before, and a copy can always be had.
      const auto members = sandbox.groups().members();
      if (members && members->size() == kInitAlone) {
        if (auto stacked = seal_stacked(sandbox, request, layer, fresh)) return stacked;
      }
      sandbox.release();
    }
    StandStill still(sandbox.groups(), Clock::now() + kFreezeWait);
    if (const auto stands = still.begin(); !stands) {
      if (silent) sandbox.release();
      return std::unexpected(stands.error());
    }
    const auto bytes = store->bytes(upper);
    const auto copied = store->copy(upper, sealed);
    if (silent) sandbox.release();
    if (!copied) return std::unexpected(copied.error());
    return Sealed{SnapshotKind::Cow, bytes ? *bytes : 0};
  };
  auto done = attempt();
  if (store->has(fresh)) (void)store->remove(fresh);
  return done;
}

// The writable layer gets a layer's name, and the empty one takes its place. Whatever fails, the
// sandbox stands as before.
Result<Sealed> NativeTier::seal_stacked(Sandbox& sandbox, LaunchRequest& request,
                                        const std::string& layer, const std::string& fresh) {
  const LivingMounts living{sandbox.pidfd(), own_mounts_.get()};
  const auto written = written_mounts(request, image_->system_folders);
  TRY(fence_mounts(living, written));
  const std::string upper = Pool::kUppers + request.id;
  const std::string sealed = Pool::kLayers + layer;
  const auto bytes = pool_->bytes(upper);
  LayerStack stack = request.stack;
  stack.layers.insert(stack.layers.begin(), layer);
  auto swapped = pool_->rename(upper, sealed);
  if (swapped) {
    swapped = pool_->rename(fresh, upper);
    if (swapped) swapped = swap_stack(sandbox, request, stack);
    if (!swapped) {
      (void)pool_->rename(upper, fresh);
      (void)pool_->rename(sealed, upper);
    }
  }
  if (!swapped) {
    (void)open_fence(living, written);
    return std::unexpected(swapped.error());
  }
  return Sealed{SnapshotKind::Stacked, bytes ? *bytes : 0};
}

// A new root with an empty writable layer, whose place is there already. An error means that the
// old root stands; after the swap there is none, and a sandbox that could not be told ends.
Result<void> NativeTier::swap_stack(Sandbox& sandbox, LaunchRequest& request,
                                    const LayerStack& stack) {
  const Stage::Scope staged(stage_);
  TRY(supply_.fetch(sandbox.slot(), sandbox.init_pid()));
  const Supply::PutBy put_by{supply_, sandbox.slot()};
  LaunchRequest next = request;
  next.stack = stack;
  next.resume = false;
  next.trust.clear();  // it is in a layer, if it was ever wanted
  RootfsSources sources = rootfs_sources();
  sources.layer = sandbox.layer();
  Rootfs rootfs = TRY(build_rootfs(next, sandbox.slot(), {}, sources, Scope::Files));
  UniqueFd old = TRY(replace_root({sandbox.pidfd(), own_mounts_.get()}, rootfs.root.get(),
                                  rootfs.mounts, kept_mounts(request)));
  if (auto parked = sys::park(std::move(old))) supply_.spend_slowly(std::move(*parked));
  std::vector<UniqueFd> spent;
  for (UniqueFd& one : rootfs.spent) {
    if (auto parked = sys::park(std::move(one))) spent.push_back(std::move(*parked));
  }
  supply_.spend(std::move(spent));
  request.stack = stack;
  // The rules name files of the old root; init makes them anew before it looks at anything else.
  if (!send_config(wire::ControlKind::Rules, sandbox.control(), request, sandbox.slot(),
                   sandbox.nonce(), {}))
    (void)sandbox.kill();
  return {};
}

namespace {

// The sides of overlays in a private tmpfs, which also has /tmp and the like.
Result<std::vector<std::string>> sides(int layer) {
  const UniqueFd folder = TRY(sys::open_at(layer, ".", O_RDONLY | O_DIRECTORY));
  auto names = TRY(sys::list_dir(folder.get(), kLayerNamesMax));
  std::erase_if(names, [](const std::string& name) {
    return !name.starts_with("root") && !name.starts_with("system");
  });
  return names;
}

Result<void> rename_sides(int layer, const std::vector<std::string>& names, const std::string& from,
                          const std::string& to) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (::renameat(layer, (from + names[i]).c_str(), layer, (to + names[i]).c_str()) == 0) continue;
    const int reason = errno;
    while (i-- > 0)
      (void)::renameat(layer, (to + names[i]).c_str(), layer, (from + names[i]).c_str());
    return sys_failure("put a writable layer aside", reason);
  }
  return {};
}

}  // namespace

// The old writable layer is put aside, and back if the swap comes to nothing.
Result<void> NativeTier::swap_on_disk(Sandbox& sandbox, LaunchRequest& request,
                                      const LayerStack& stack) {
  const std::string upper = Pool::kUppers + request.id;
  const std::string aside = Pool::kAside + request.id;
  const std::string fresh = TRY_IN("storage", pool_->make_ready(request.limits.disk_bytes));
  auto done = pool_->rename(upper, aside);
  if (done) {
    done = pool_->rename(fresh, upper);
    if (done) done = swap_stack(sandbox, request, stack);
    if (!done) {
      if (!pool_->has(fresh)) (void)pool_->rename(upper, fresh);
      (void)pool_->rename(aside, upper);
    }
  }
  if (!done) {
    (void)pool_->remove(fresh);
    return done;
  }
  // What stays there would be put back by the next launcher.
  if (!pool_->discard(aside)) (void)sandbox.kill();
  return {};
}

Result<void> NativeTier::swap_in_memory(Sandbox& sandbox, LaunchRequest& request,
                                        const LayerStack& stack) {
  const std::vector<std::string> names = TRY(sides(sandbox.layer()));
  const std::string aside = "old." + TRY(SandboxId::random()).str() + ".";
  TRY(rename_sides(sandbox.layer(), names, "", aside));
  const auto done = swap_stack(sandbox, request, stack);
  if (done) {
    for (const std::string& name : names) (void)sys::remove_tree(sandbox.layer(), aside + name);
    return {};
  }
  // Whatever of the new ones was made has their names.
  const auto made = sides(sandbox.layer());
  if (made) {
    for (const std::string& name : *made) (void)sys::remove_tree(sandbox.layer(), name);
  }
  (void)rename_sides(sandbox.layer(), names, aside, "");
  return done;
}

Result<void> NativeTier::restack(Sandbox& sandbox, LaunchRequest& request,
                                 const LayerStack& stack) {
  if (!request.folders.empty())
    return failure(Errc::Unsupported, "a sandbox that shows folders of the host stays as it is");
  TRY(pool());
  TRY(sandbox.hold());
  auto done = replace_stack(sandbox, request, stack);
  if (!done) sandbox.release();
  return done;
}

// init is held. Nobody else is there who could start anything.
Result<void> NativeTier::replace_stack(Sandbox& sandbox, LaunchRequest& request,
                                       const LayerStack& stack) {
  const std::size_t members = TRY(sandbox.groups().members()).size();
  if (members > kInitAlone) {
    return failure(Errc::Busy, std::to_string(members - kInitAlone) +
                                   " processes run in the sandbox; end them, or say end_processes");
  }
  const LivingMounts living{sandbox.pidfd(), own_mounts_.get()};
  const auto written = written_mounts(request, image_->system_folders);
  TRY(fence_mounts(living, written));
  auto done = request.storage == Storage::Disk ? swap_on_disk(sandbox, request, stack)
                                               : swap_in_memory(sandbox, request, stack);
  if (!done) (void)open_fence(living, written);
  return done;
}

}  // namespace caisson::engine::native
