// engine/native/rootfs.h — everything a sandbox sees, as detached mounts for the child to attach.
//
// One private tmpfs, bounded in bytes and files, carries all that the guest can write: the upper
// layer of the root's overlay, /tmp, /run, /dev/shm, and the upper layers of folders that are shown
// as a private copy. It is charged to the sandbox's memory and disappears with it. With
// Storage::Disk the upper layers of the root and of the system folders lie in the store instead,
// under the same names, each a *part* of that layer. A read-only root is the overlay's mount made
// read-only, with a writable mount of its own /workspace on top, so the workspace is part of the
// same layer.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/host/features.h"
#include "engine/launch_request.h"
#include "engine/native/devices.h"
#include "engine/native/slots.h"
#include "engine/native/stage.h"
#include "engine/native/store_view.h"

namespace caisson::engine::native {

struct RootfsSources {
  const HostFeatures& host;
  StoreSources store;
  std::vector<std::string> system_folders;
  std::function<Result<int>()> devices;  // asked last: they may still be in the making
  // A launcher with mounts of its own visits those of its callers, to whom their folders belong.
  // -1: they are the same.
  int home_mounts = -1;
  int own_mounts = -1;
  int layer = -1;  // the private tmpfs that the sandbox has already; -1: it gets one
  // The writable layer of a living sandbox, for StoreMount::Kind::Upper.
  std::function<Result<UniqueFd>(const std::string& id, const Slot& slot)> upper_of;
};

struct Rootfs {
  UniqueFd root;
  std::vector<Mounted> mounts;
  // Not needed any more, but dear to let go of: for when there is time.
  std::vector<UniqueFd> spent;  // parents before what lies in them
  UniqueFd layer;               // the private tmpfs
};

enum class Scope : std::uint8_t {
  Whole,
  Carried,  // for another kernel, which has devices of its own
  Files,    // only what comes from the stack: the rest goes on under another one
};

[[nodiscard]] Result<Rootfs> build_rootfs(const LaunchRequest& request, Slot& slot,
                                          std::span<const UniqueFd> folders,
                                          const RootfsSources& sources, Scope scope = Scope::Whole);

// The owner of a host folder as the tenant's twin, or nothing when he cannot be translated.
[[nodiscard]] Result<FolderOwner> owner_of(int folder, const LaunchRequest& request);

}  // namespace caisson::engine::native
