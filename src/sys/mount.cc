#include "sys/mount.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "sys/file.h"
#include "sys/raw.h"

namespace caisson::sys {
namespace {

constexpr std::size_t kFsLogMax = 512;

unsigned attributes_of(unsigned flags) noexcept {
  unsigned attributes = 0;
  if ((flags & kMountReadOnly) != 0) attributes |= MOUNT_ATTR_RDONLY;
  if ((flags & kMountNoSuid) != 0) attributes |= MOUNT_ATTR_NOSUID;
  if ((flags & kMountNoDev) != 0) attributes |= MOUNT_ATTR_NODEV;
  if ((flags & kMountNoExec) != 0) attributes |= MOUNT_ATTR_NOEXEC;
  return attributes;
}

// A file system context explains itself better than an errno: its log is read from the same
// descriptor.
std::unexpected<Error> context_failure(int context, const std::string& what, int reason) {
  std::string log(kFsLogMax, '\0');
  const ssize_t got = ::read(context, log.data(), log.size());
  log.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!log.empty() && log.back() == '\n') log.pop_back();
  auto error = sys_failure(what, reason);
  if (!log.empty()) error.error().message += " (" + log + ")";
  return error;
}

Result<UniqueFd> open_context(const char* type) {
  UniqueFd context(raw::fsopen(type));
  if (!context) return sys_failure(std::string("new file system ") + type, errno);
  return context;
}

Result<void> set_option(int context, const std::string& key, const std::string& value) {
  const bool flag = value.empty();
  if (raw::fsconfig(context, flag ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING, key.c_str(),
                    flag ? nullptr : value.c_str(), 0) != 0) {
    return context_failure(context, "mount option " + key + "=" + value, errno);
  }
  return {};
}

// The magic link names our descriptor whatever its path is.
std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

Result<void> set_layer(int context, const OverlaySpec& spec, const char* key, int fd) {
  if (spec.names == LayerNames::Descriptors) {
    if (raw::fsconfig(context, FSCONFIG_SET_FD, key, nullptr, fd) == 0) return {};
    return context_failure(context, std::string("overlay layer ") + key, errno);
  }
  return set_option(context, key, path_of(fd));
}

// The old interface knows one "lowerdir" of paths.
Result<void> set_lowers(int context, const OverlaySpec& spec) {
  if (spec.names == LayerNames::Descriptors) {
    for (const int lower : spec.lowers) TRY(set_layer(context, spec, "lowerdir+", lower));
    return {};
  }
  std::string paths;
  for (const int lower : spec.lowers) paths += (paths.empty() ? "" : ":") + path_of(lower);
  return set_option(context, "lowerdir", paths);
}

Result<UniqueFd> create_and_mount(int context, const std::string& what, unsigned flags) {
  if (raw::fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return context_failure(context, "make " + what, errno);
  }
  UniqueFd mount(raw::fsmount(context, attributes_of(flags)));
  if (!mount) return context_failure(context, "mount " + what, errno);
  return mount;
}

}  // namespace

Result<UniqueFd> new_mount(const char* type, const MountOptions& options, unsigned flags) {
  const UniqueFd context = TRY(open_context(type));
  for (const auto& [key, value] : options) TRY(set_option(context.get(), key, value));
  return create_and_mount(context.get(), type, flags);
}

namespace {

// A copy of a shared mount is its peer: what the host mounts below the original later would show in
// the copy too. Most hosts share everything.
Result<void> set_private(int mount, unsigned flags) {
  mount_attr attributes{};
  attributes.attr_set = attributes_of(flags);
  attributes.propagation = MS_PRIVATE;
  if (raw::mount_setattr(mount, "", AT_EMPTY_PATH, attributes) != 0)
    return sys_failure("make a mount private", errno);
  return {};
}

}  // namespace

Result<UniqueFd> clone_mount(int dir, const std::string& path, unsigned flags) {
  UniqueFd mount(raw::open_tree(dir, path.c_str(),
                                OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
                                    (dir == AT_FDCWD ? 0U : AT_SYMLINK_NOFOLLOW) |
                                    (path.empty() ? AT_EMPTY_PATH : 0U)));
  if (!mount) return sys_failure("clone the mount of '" + path + "'", errno);
  TRY(set_private(mount.get(), flags));
  return mount;
}

Result<UniqueFd> clone_mount_idmapped(int dir, const std::string& path, unsigned flags,
                                      int user_namespace) {
  UniqueFd mount = TRY(clone_mount(dir, path, 0));
  mount_attr attributes{};
  attributes.attr_set = attributes_of(flags) | MOUNT_ATTR_IDMAP;
  attributes.userns_fd = static_cast<std::uint64_t>(user_namespace);
  if (raw::mount_setattr(mount.get(), "", AT_EMPTY_PATH, attributes) != 0) {
    return sys_failure("translate the owners of '" + path + "' (idmapped mount)", errno);
  }
  return mount;
}

Result<void> set_mount_flags(int mount, unsigned flags) {
  mount_attr attributes{};
  attributes.attr_set = attributes_of(flags);
  if (raw::mount_setattr(mount, "", AT_EMPTY_PATH, attributes) != 0)
    return sys_failure("set mount flags", errno);
  return {};
}

Result<bool> is_read_only(int mount) {
  struct statvfs stats{};
  if (::fstatvfs(mount, &stats) != 0) return sys_failure("statvfs", errno);
  return (stats.f_flag & ST_RDONLY) != 0;
}

Result<UniqueFd> overlay_mount(const OverlaySpec& spec) {
  const UniqueFd context = TRY(open_context("overlay"));
  TRY(set_lowers(context.get(), spec));
  if (spec.upper >= 0) {
    TRY(set_layer(context.get(), spec, "upperdir", spec.upper));
    TRY(set_layer(context.get(), spec, "workdir", spec.work));
    TRY(set_option(context.get(), "volatile", ""));
  }
  if (spec.user_xattr) TRY(set_option(context.get(), "userxattr", ""));
  UniqueFd mount = TRY(create_and_mount(context.get(), "overlay", spec.flags));
  if (spec.upper >= 0 && TRY(is_read_only(mount.get()))) {
    return failure(
        Errc::Internal,
        "overlay: the kernel made it read-only, the writable layer's owner is not mapped");
  }
  return mount;
}

FsIdentity::FsIdentity(std::uint32_t id) noexcept {
  (void)raw::capget(effective_, permitted_);
  old_gid_ = static_cast<std::uint32_t>(raw::set_fs_gid(id));
  old_uid_ = static_cast<std::uint32_t>(raw::set_fs_uid(id));
  (void)raw::capset(effective_, permitted_, 0);  // leaving fsuid 0 took the file capabilities away
}

FsIdentity::~FsIdentity() {
  (void)raw::set_fs_uid(old_uid_);
  (void)raw::set_fs_gid(old_gid_);
  (void)raw::capset(effective_, permitted_, 0);
}

namespace {

// "/a/b/c": makes /a and /a/b below `root`.
Result<void> make_parents(int root, const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    TRY(make_dir(root, path.substr(1, at - 1), 0755, Existing::Accept));
  }
  return {};
}

struct Kept {
  UniqueFd tree;
  std::string place;  // below the holder
};

Result<std::vector<Kept>> take(const std::vector<std::string>& paths) {
  std::vector<Kept> all;
  for (const std::string& path : paths) {
    UniqueFd tree(raw::open_tree(AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    if (!tree) return sys_failure("keep " + path, errno);
    all.push_back({std::move(tree), std::to_string(all.size())});
  }
  return all;
}

// The new root, still detached: parents, links and empty folders.
Result<UniqueFd> make_trimmed_root(const TrimmedView& view) {
  UniqueFd root = TRY(new_mount("tmpfs", {{"mode", "0755"}, {"size", "64k"}, {"nr_inodes", "64"}},
                                kMountNoSuid | kMountNoExec));
  for (std::size_t i = 0; i < view.kept.size(); ++i) {
    TRY(make_parents(root.get(), view.kept[i]));
    const std::string target = std::string(TrimmedView::kHolder) + "/" + std::to_string(i);
    if (::symlinkat(target.c_str(), root.get(), view.kept[i].substr(1).c_str()) != 0) {
      return sys_failure("link " + view.kept[i], errno);
    }
  }
  for (const std::string& path : view.empty) {
    TRY(make_parents(root.get(), path));
    TRY(make_dir(root.get(), path.substr(1), 0755, Existing::Accept));
  }
  TRY(make_dir(root.get(), std::string(TrimmedView::kHolder).substr(1), 0755, Existing::Accept));
  return root;
}

Result<void> switch_to(int root) {
  // Any folder will do as the place of the new root: pivot_root stacks the old root on it, and that
  // is detached.
  const UniqueFd place = TRY(open_at(AT_FDCWD, "/usr", O_PATH | O_DIRECTORY));
  if (raw::attach_mount(root, place.get()) != 0) return sys_failure("attach the new root", errno);
  if (::fchdir(root) != 0) return sys_failure("enter the new root", errno);
  if (raw::pivot_root(".", ".") != 0) return sys_failure("pivot_root", errno);
  if (::umount2(".", MNT_DETACH) != 0) return sys_failure("detach the old root", errno);
  if (::chdir("/") != 0) return sys_failure("chdir /", errno);
  return {};
}

}  // namespace

Result<void> trim_mount_namespace(const TrimmedView& view) {
  if (::unshare(CLONE_NEWNS) != 0) return sys_failure("new mount namespace", errno);
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return sys_failure("make / private", errno);
  }
  const std::vector<Kept> kept = TRY(take(view.kept));
  const UniqueFd root = TRY(make_trimmed_root(view));
  const UniqueFd holder =
      TRY(new_mount("tmpfs", {{"mode", "0755"}, {"size", "64k"}, {"nr_inodes", "32"}},
                    kMountNoSuid | kMountNoExec));
  for (const Kept& one : kept) TRY(make_dir(holder.get(), one.place, 0755, Existing::Refuse));
  TRY(switch_to(root.get()));
  const UniqueFd place = TRY(open_at(AT_FDCWD, TrimmedView::kHolder, O_PATH | O_DIRECTORY));
  if (raw::attach_mount(holder.get(), place.get()) != 0)
    return sys_failure("attach the holder", errno);
  for (const Kept& one : kept) {
    const UniqueFd target = TRY(open_at(holder.get(), one.place, O_PATH | O_DIRECTORY));
    if (raw::attach_mount(one.tree.get(), target.get()) != 0)
      return sys_failure("attach what is kept", errno);
  }
  TRY(set_mount_flags(holder.get(), kMountReadOnly));
  return set_mount_flags(root.get(), kMountReadOnly);
}

}  // namespace caisson::sys
