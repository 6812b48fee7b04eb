// File state of living sandboxes: their place in the store, seals, other stacks.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "engine/native/restack.h"
#include "engine/native/tier.h"
#include "guest/layer_blob.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace caisson::engine::native {
namespace {

constexpr seconds kFreezeWait{2};
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
  if (request.root != RootMode::Writable) {
    if (request.workspace == WorkspaceMode::Writable) paths.emplace_back("/workspace");
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
  if (request.resume && !store->has(upper))
    return failure(Errc::NotFound, "sandbox '" + request.id + "' has no files here");
  if (request.storage == Storage::Disk && !request.resume)
    TRY_IN("storage", store->make(upper, request.limits.disk_bytes));
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

Result<Sealed> NativeTier::seal(Sandbox& sandbox, LaunchRequest& request,
                                const std::string& layer) {
  if (request.storage != Storage::Disk) {
    return failure(Errc::Busy, "the sandbox's files are in memory; create it with storage disk");
  }
  Pool* store = TRY(pool());
  if (store->has(Pool::kLayers + layer))
    return failure(Errc::AlreadyExists, "layer '" + layer + "' exists");
  if (request.stack.layers.size() >= kLayersMax) {
    return failure(Errc::Exhausted, "the sandbox has " + std::to_string(kLayersMax) +
                                        " layers, its most: wait until they are made one");
  }
  StandStill still(sandbox.groups(), Clock::now() + kFreezeWait);
  TRY(still.begin());
  if (TRY(sandbox.groups().members()).size() == kInitAlone) {
    auto sealed = seal_stacked(sandbox, request, layer);
    if (sealed || sealed.error().code != Errc::Busy) return sealed;
  }
  TRY(store->copy(Pool::kUppers + request.id, Pool::kLayers + layer));
  const auto bytes = store->bytes(Pool::kLayers + layer);
  return Sealed{SnapshotKind::Cow, bytes ? *bytes : 0};
}

// The writable layer gets a layer's name, and an empty one takes its place. Whatever fails, the
// sandbox stands as before.
Result<Sealed> NativeTier::seal_stacked(Sandbox& sandbox, LaunchRequest& request,
                                        const std::string& layer) {
  const LivingMounts living{sandbox.pidfd(), own_mounts_.get()};
  const auto written = written_mounts(request, image_->system_folders);
  TRY(fence_mounts(living, written));
  const std::string upper = Pool::kUppers + request.id;
  const std::string sealed = Pool::kLayers + layer;
  const auto bytes = pool_->bytes(upper);
  LayerStack stack = request.stack;
  stack.layers.insert(stack.layers.begin(), layer);
  const auto swap = [&]() -> Result<void> {
    TRY(pool_->rename(upper, sealed));
    auto made = pool_->make(upper, request.limits.disk_bytes);
    if (made) made = swap_stack(sandbox, request, stack);
    if (made) return {};
    if (pool_->has(upper)) (void)pool_->remove(upper);
    TRY(pool_->rename(sealed, upper));
    return made;
  };
  auto swapped = swap();
  if (!swapped) {
    (void)open_fence(living, written);
    return std::unexpected(swapped.error());
  }
  return Sealed{SnapshotKind::Stacked, bytes ? *bytes : 0};
}

// A new root with an empty writable layer, whose place is there already.
Result<void> NativeTier::swap_stack(Sandbox& sandbox, LaunchRequest& request,
                                    const LayerStack& stack) {
  const Stage::Scope staged(stage_);
  LaunchRequest next = request;
  next.stack = stack;
  next.resume = false;
  next.trust.clear();  // it is in a layer, if it was ever wanted
  RootfsSources sources = rootfs_sources();
  sources.layer = sandbox.layer();
  Rootfs rootfs = TRY(build_rootfs(next, sandbox.slot(), {}, sources, Scope::Files));
  UniqueFd old = TRY(replace_root({sandbox.pidfd(), own_mounts_.get()}, rootfs.root.get(),
                                  rootfs.mounts, kept_mounts(request)));
  supply_.spend_slowly(TRY(sys::park(std::move(old))));
  for (UniqueFd& one : rootfs.spent) one = TRY(sys::park(std::move(one)));
  supply_.spend(std::move(rootfs.spent));
  request.stack = stack;
  // The rules name files of the old root; init makes them anew before it looks at anything else.
  return send_config(wire::ControlKind::Rules, sandbox.control(), request, sandbox.slot(),
                     sandbox.nonce(), {});
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
  for (const std::string& name : names) {
    if (::renameat(layer, (from + name).c_str(), layer, (to + name).c_str()) != 0)
      return sys_failure("put a writable layer aside", errno);
  }
  return {};
}

constexpr const char* kAside = "old.";

}  // namespace

Result<void> NativeTier::restack(Sandbox& sandbox, LaunchRequest& request,
                                 const LayerStack& stack) {
  if (!request.folders.empty())
    return failure(Errc::Unsupported, "a sandbox that shows folders of the host stays as it is");
  Pool* store = TRY(pool());
  StandStill still(sandbox.groups(), Clock::now() + kFreezeWait);
  TRY(still.begin());
  const std::size_t running = TRY(sandbox.groups().members()).size() - kInitAlone;
  if (running > 0) {
    return failure(Errc::Busy, std::to_string(running) +
                                   " processes run in the sandbox; end them, or say end_processes");
  }
  const LivingMounts living{sandbox.pidfd(), own_mounts_.get()};
  const auto written = written_mounts(request, image_->system_folders);
  TRY(fence_mounts(living, written));
  const std::string upper = Pool::kUppers + request.id;
  const std::string aside = Pool::kMaking + request.id;
  const bool disk = request.storage == Storage::Disk;
  std::vector<std::string> old;
  if (!disk) old = TRY(sides(sandbox.layer()));
  const auto put_aside = [&]() -> Result<void> {
    if (!disk) return rename_sides(sandbox.layer(), old, "", kAside);
    TRY(store->rename(upper, aside));
    return store->make(upper, request.limits.disk_bytes);
  };
  auto done = put_aside();
  if (done) done = swap_stack(sandbox, request, stack);
  if (done) {
    if (disk) return store->remove(aside);
    for (const std::string& name : old) (void)sys::remove_tree(sandbox.layer(), kAside + name);
    return {};
  }
  if (disk && store->has(aside)) {
    if (store->has(upper)) (void)store->remove(upper);
    (void)store->rename(aside, upper);
  } else if (!disk) {
    for (const std::string& name : old) (void)sys::remove_tree(sandbox.layer(), name);
    (void)rename_sides(sandbox.layer(), old, kAside, "");
  }
  (void)open_fence(living, written);
  return done;
}

}  // namespace caisson::engine::native
