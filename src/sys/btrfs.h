// sys/btrfs.h — subvolumes of a btrfs: folders that can be copied, limited and removed as a whole,
// in a moment, whatever they hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::sys {

[[nodiscard]] Result<bool> is_btrfs(int fd);

// From now on the bytes of every new subvolume are counted: by who wrote them where the kernel can
// (Linux 6.7), which costs nothing later.
[[nodiscard]] Result<void> btrfs_count_bytes(int fd);
[[nodiscard]] Result<bool> btrfs_counts_bytes(int fd);

[[nodiscard]] Result<void> make_subvolume(int dir, const std::string& name);
// `dir`/`name` shares every block with `source`, from this instant on.
[[nodiscard]] Result<void> snapshot_subvolume(int source, int dir, const std::string& name);
// Returns at once; the kernel takes it apart later.
[[nodiscard]] Result<void> remove_subvolume(int dir, const std::string& name);
[[nodiscard]] Result<bool> is_subvolume(int dir, const std::string& name);

// 0: no limit.
[[nodiscard]] Result<void> limit_subvolume(int subvolume, std::uint64_t bytes);
// As of the last commit of the file system.
[[nodiscard]] Result<std::uint64_t> subvolume_bytes(int subvolume);

}  // namespace caisson::sys
