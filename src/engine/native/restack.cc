#include "engine/native/restack.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "sys/namespace.h"
#include "sys/raw.h"

namespace caisson::engine::native {
namespace {

namespace raw = sys::raw;

// What the guest left is never followed anywhere.
constexpr std::uint64_t kResolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
// A folder that is a mount of its own in every sandbox, and so cannot be anything else.
constexpr const char* kPlace = "/proc";

// To where init's own root is. Leaving the namespace takes us out of it again.
Result<void> enter(const sys::MountNamespaceVisit& visit) {
  if (!visit.inside()) return sys_failure("enter the sandbox's mounts", errno);
  if (::chroot(sys::PendingNamespace::kEmptyFolder) != 0 || ::chdir("/") != 0)
    return sys_failure("enter the sandbox's root", errno);
  return {};
}

// A guest that may write the root can put anything where a mount was, but not take the mount away.
Result<UniqueFd> open_mount(const std::string& path) {
  UniqueFd place(raw::openat2(AT_FDCWD, path.c_str(), O_PATH | O_CLOEXEC,
                              RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS));
  if (!place) return sys_failure("find " + path, errno);
  struct statx facts{};
  if (::statx(place.get(), "", AT_EMPTY_PATH, 0, &facts) != 0)
    return sys_failure("look at " + path, errno);
  if ((facts.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0)
    return failure(Errc::Busy, path + " was moved away inside the sandbox");
  return place;
}

enum class Access : std::uint8_t { ReadOnly, ReadWrite };

// By the mount and not by the file system: that would drop every name the kernel has in memory,
// which takes longer the more files there are.
Result<void> set_access(const std::string& path, Access access) {
  const UniqueFd mount = TRY(open_mount(path));
  mount_attr attributes{};
  (access == Access::ReadOnly ? attributes.attr_set : attributes.attr_clr) = MOUNT_ATTR_RDONLY;
  if (raw::mount_setattr(mount.get(), "", AT_EMPTY_PATH, attributes) == 0) return {};
  if (errno == EBUSY) return failure(Errc::Busy, path + " is being written");
  return sys_failure("fence " + path, errno);
}

Result<UniqueFd> target_in(int root, const std::string& path) {
  UniqueFd target(raw::openat2(root, path.c_str(), O_PATH | O_CLOEXEC, kResolve));
  if (!target) return sys_failure("find " + path + " in the new root", errno);
  return target;
}

Result<void> attach(int mount, int root, const std::string& path) {
  const UniqueFd target = TRY(target_in(root, path));
  if (raw::attach_mount(mount, target.get()) != 0) return sys_failure("attach " + path, errno);
  return {};
}

Result<std::vector<UniqueFd>> take(const std::vector<std::string>& paths) {
  std::vector<UniqueFd> trees;
  for (const std::string& path : paths) {
    const UniqueFd mount = TRY(open_mount(path));
    UniqueFd tree(raw::open_tree(
        mount.get(), "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH));
    if (!tree) return sys_failure("take " + path, errno);
    trees.push_back(std::move(tree));
  }
  return trees;
}

}  // namespace

Result<void> fence_mounts(const LivingMounts& living, const std::vector<std::string>& paths) {
  const sys::MountNamespaceVisit visit(living.pidfd, living.own_mounts);
  TRY(enter(visit));
  for (std::size_t i = 0; i < paths.size(); ++i) {
    auto fenced = set_access(paths[i], Access::ReadOnly);
    if (fenced) continue;
    while (i-- > 0) (void)set_access(paths[i], Access::ReadWrite);
    return fenced;
  }
  return {};
}

Result<void> open_fence(const LivingMounts& living, const std::vector<std::string>& paths) {
  const sys::MountNamespaceVisit visit(living.pidfd, living.own_mounts);
  TRY(enter(visit));
  for (const std::string& path : paths) TRY(set_access(path, Access::ReadWrite));
  return {};
}

Result<UniqueFd> replace_root(const LivingMounts& living, int root, std::span<const Mounted> mounts,
                              const std::vector<std::string>& kept) {
  const sys::MountNamespaceVisit visit(living.pidfd, living.own_mounts);
  TRY(enter(visit));
  const UniqueFd place(raw::openat2(AT_FDCWD, kPlace, O_PATH | O_CLOEXEC,
                                    RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS));
  if (!place) return sys_failure("find a place for the new root", errno);
  UniqueFd old(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!old) return sys_failure("hold the old root", errno);
  const std::vector<UniqueFd> trees = TRY(take(kept));  // before the place is covered
  if (raw::attach_mount(root, place.get()) != 0) return sys_failure("attach the new root", errno);
  const auto fill = [&]() -> Result<void> {
    for (const Mounted& mounted : mounts) TRY(attach(mounted.mount.get(), root, mounted.target));
    for (std::size_t i = 0; i < kept.size(); ++i)
      TRY(attach(trees[i].get(), root, kept[i].substr(1)));
    return {};
  };
  auto filled = fill();
  if (filled && ::fchdir(root) != 0) filled = sys_failure("enter the new root", errno);
  if (filled && raw::pivot_root(".", ".") != 0) filled = sys_failure("pivot_root", errno);
  if (!filled) {
    (void)::umount2(kPlace, MNT_DETACH);
    return std::unexpected(filled.error());
  }
  (void)::umount2(".", MNT_DETACH);  // from here on there is no way back
  return old;
}

}  // namespace caisson::engine::native
