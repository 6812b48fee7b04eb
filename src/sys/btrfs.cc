#include "sys/btrfs.h"

#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "sys/file.h"

namespace caisson::sys {
namespace {

// Newer than the headers of some distributions.
constexpr std::uint64_t kEnableSimpleQuota = 4;
constexpr std::uint64_t kFirstInode = 256;  // of every subvolume's root

Result<void> check_name(const std::string& name) {
  if (name.empty() || name.size() > BTRFS_SUBVOL_NAME_MAX || name.find('/') != std::string::npos)
    return failure(Errc::InvalidArgument, "subvolume: '" + name + "' is no name");
  return {};
}

template <class T>
Result<void> name_it(T& arguments, const std::string& name) {
  TRY(check_name(name));
  static_assert(sizeof(arguments.name) > BTRFS_SUBVOL_NAME_MAX);
  std::memcpy(arguments.name, name.data(), name.size());
  return {};
}

Result<std::uint64_t> tree_of(int subvolume) {
  btrfs_ioctl_ino_lookup_args lookup{};
  lookup.objectid = BTRFS_FIRST_FREE_OBJECTID;
  if (::ioctl(subvolume, BTRFS_IOC_INO_LOOKUP, &lookup) != 0)
    return sys_failure("look at a subvolume", errno);
  return lookup.treeid;
}

// One item of the tree that keeps the accounts; nothing where it has none.
template <class T>
Result<std::optional<T>> account_item(int fd, std::uint32_t type, std::uint64_t offset) {
  std::array<char, sizeof(btrfs_ioctl_search_args_v2) + 4096> room{};
  auto* search = reinterpret_cast<btrfs_ioctl_search_args_v2*>(room.data());
  search->buf_size = room.size() - sizeof(*search);
  btrfs_ioctl_search_key& key = search->key;
  key.tree_id = BTRFS_QUOTA_TREE_OBJECTID;
  key.min_objectid = key.max_objectid = 0;
  key.min_type = key.max_type = type;
  key.min_offset = key.max_offset = offset;
  key.max_transid = ~0ULL;
  key.nr_items = 1;
  if (::ioctl(fd, BTRFS_IOC_TREE_SEARCH_V2, search) != 0) {
    if (errno == ENOENT) return std::nullopt;  // nothing is counted here
    return sys_failure("read the accounts of a btrfs", errno);
  }
  if (key.nr_items == 0) return std::nullopt;
  btrfs_ioctl_search_header head{};
  std::memcpy(&head, search->buf, sizeof(head));
  T item{};
  if (head.len < sizeof(item)) return std::nullopt;
  std::memcpy(&item, reinterpret_cast<const char*>(search->buf) + sizeof(head), sizeof(item));
  return item;
}

}  // namespace

Result<bool> is_btrfs(int fd) {
  struct statfs facts{};
  if (::fstatfs(fd, &facts) != 0) return sys_failure("statfs", errno);
  return facts.f_type == BTRFS_SUPER_MAGIC;
}

Result<void> btrfs_count_bytes(int fd) {
  btrfs_ioctl_quota_ctl_args control{};
  control.cmd = kEnableSimpleQuota;
  if (::ioctl(fd, BTRFS_IOC_QUOTA_CTL, &control) == 0) return {};
  control.cmd = BTRFS_QUOTA_CTL_ENABLE;
  if (::ioctl(fd, BTRFS_IOC_QUOTA_CTL, &control) == 0) return {};
  return sys_failure("count the bytes of a btrfs", errno);
}

Result<bool> btrfs_counts_bytes(int fd) {
  const auto status = TRY(account_item<btrfs_qgroup_status_item>(fd, BTRFS_QGROUP_STATUS_KEY, 0));
  return status.has_value();
}

Result<void> make_subvolume(int dir, const std::string& name) {
  btrfs_ioctl_vol_args arguments{};
  TRY(name_it(arguments, name));
  if (::ioctl(dir, BTRFS_IOC_SUBVOL_CREATE, &arguments) != 0)
    return sys_failure("make the subvolume '" + name + "'", errno);
  return {};
}

Result<void> snapshot_subvolume(int source, int dir, const std::string& name) {
  btrfs_ioctl_vol_args_v2 arguments{};
  TRY(name_it(arguments, name));
  arguments.fd = source;
  if (::ioctl(dir, BTRFS_IOC_SNAP_CREATE_V2, &arguments) != 0)
    return sys_failure("take a snapshot '" + name + "'", errno);
  return {};
}

Result<void> remove_subvolume(int dir, const std::string& name) {
  btrfs_ioctl_vol_args arguments{};
  TRY(name_it(arguments, name));
  if (::ioctl(dir, BTRFS_IOC_SNAP_DESTROY, &arguments) != 0)
    return sys_failure("remove the subvolume '" + name + "'", errno);
  return {};
}

Result<bool> is_subvolume(int dir, const std::string& name) {
  struct stat facts{};
  if (::fstatat(dir, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
    return sys_failure("look at '" + name + "'", errno);
  return S_ISDIR(facts.st_mode) && facts.st_ino == kFirstInode;
}

Result<void> limit_subvolume(int subvolume, std::uint64_t bytes) {
  btrfs_ioctl_qgroup_limit_args arguments{};
  arguments.lim.flags = BTRFS_QGROUP_LIMIT_MAX_RFER;
  arguments.lim.max_rfer = bytes == 0 ? ~0ULL : bytes;
  if (::ioctl(subvolume, BTRFS_IOC_QGROUP_LIMIT, &arguments) != 0)
    return sys_failure("limit the bytes of a subvolume", errno);
  return {};
}

Result<std::uint64_t> subvolume_bytes(int subvolume) {
  const std::uint64_t tree = TRY(tree_of(subvolume));
  const auto info =
      TRY(account_item<btrfs_qgroup_info_item>(subvolume, BTRFS_QGROUP_INFO_KEY, tree));
  return info ? info->rfer : 0;
}

}  // namespace caisson::sys
