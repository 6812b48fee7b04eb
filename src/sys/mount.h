// sys/mount.h — detached mounts: made here, attached by the child. A UniqueFd of a detached mount
// is its owner: closing it unmounts it, so a launch that fails half way leaves nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::sys {

enum MountFlags : unsigned {  // a set
  kMountReadOnly = 1U << 0,
  kMountNoSuid = 1U << 1,
  kMountNoDev = 1U << 2,
  kMountNoExec = 1U << 3,
};

// A new file system instance; each option is a key with a value, or a flag when the value is empty.
using MountOptions = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] Result<UniqueFd> new_mount(const char* type, const MountOptions& options,
                                         unsigned flags);

// A copy of the mount at `path`, that folder as its root, without what is mounted below it.
[[nodiscard]] Result<UniqueFd> clone_mount(int dir, const std::string& path, unsigned flags);

// As clone_mount, with the owners on disk translated through a user namespace's map.
[[nodiscard]] Result<UniqueFd> clone_mount_idmapped(int dir, const std::string& path,
                                                    unsigned flags, int user_namespace);

[[nodiscard]] Result<void> set_mount_flags(int mount, unsigned flags);

// The file system's own word on whether this mount can be written.
[[nodiscard]] Result<bool> is_read_only(int mount);

enum class LayerNames : std::uint8_t {
  Descriptors,
  Paths
};  // kernels before 6.13 want /proc/self/fd/N

struct OverlaySpec {
  std::vector<int> lowers;  // top first
  int upper = -1;           // -1: read-only overlay of at least two lowers
  int work = -1;
  bool user_xattr =
      true;  // marks in user.overlay.*, which a tmpfs takes since 6.6; else trusted.overlay.*
  LayerNames names = LayerNames::Descriptors;
  unsigned flags = kMountNoSuid | kMountNoDev;
};
// Always volatile: a plain overlay syncs its whole upper file system when it is unmounted,
// neighbours' pages included.
[[nodiscard]] Result<UniqueFd> overlay_mount(const OverlaySpec& spec);

// While alive the calling thread makes files as `id` and keeps its capabilities. The kernel takes
// the mounter's ids when it makes an overlay: with an id that an idmapped layer does not know, the
// overlay is silently read-only.
class FsIdentity {
 public:
  explicit FsIdentity(std::uint32_t id) noexcept;
  FsIdentity(const FsIdentity&) = delete;
  FsIdentity& operator=(const FsIdentity&) = delete;
  ~FsIdentity();

 private:
  std::uint64_t effective_ = 0;
  std::uint64_t permitted_ = 0;
  std::uint32_t old_uid_ = 0;
  std::uint32_t old_gid_ = 0;
};

// Replaces the calling process's view by a private mount namespace whose root is a read-only tmpfs
// that holds only the named folders of the host (each at the same path) and, empty, the others.
// Mounts of the host made later do not show. The kept ones all hang below kHolder, and their paths
// are links: a child gets rid of them by one unmount, which costs the kernel a grace period each.
struct TrimmedView {
  static constexpr const char* kHolder = "/kept";
  std::vector<std::string> kept;
  std::vector<std::string> empty;
};
[[nodiscard]] Result<void> trim_mount_namespace(const TrimmedView& view);

}  // namespace caisson::sys
