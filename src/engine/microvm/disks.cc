#include "engine/microvm/disks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/id.h"
#include "engine/microvm/jail/jail.h"
#include "sys/file.h"
#include "sys/file_clone.h"
#include "sys/process.h"

namespace caisson::engine::microvm {
namespace {

constexpr const char* kFormatter = "/usr/sbin/mke2fs";
constexpr std::uint64_t kMib = 1ULL << 20U;
constexpr const char* kDisk = "disk";
constexpr const char* kPrefix = "empty-";

// No journal: a disk does not outlive its machine. Tables of inodes are written when they are used.
// In a jail, as root without a capability: a launcher has left the host's mounts behind.
Result<void> format(int disk, std::uint64_t files, int null) {
  if (::access(kFormatter, X_OK) != 0) {
    return failure(Errc::Unsupported,
                   fmt::format("the microvm tier needs {} (package e2fsprogs)", kFormatter));
  }
  const std::array<JailFile, 1> shown{{{kDisk, disk, {}, true}}};
  const std::array<JailDescriptor, 3> descriptors{{{null, 0}, {null, 1}, {null, 2}}};
  JailWish wish;
  wish.program = kFormatter;
  wish.arguments = {"-q",
                    "-F",
                    "-t",
                    "ext4",
                    "-O",
                    "^has_journal,^resize_inode",
                    "-m",
                    "0",
                    "-E",
                    "lazy_itable_init=1,nodiscard,root_owner=0:0",
                    "-N",
                    std::to_string(files),
                    std::string("/") + kDisk};
  wish.files = shown;
  wish.descriptors = descriptors;
  wish.id = 0;
  wish.file_bytes_max = kDiskBytesMax;
  sys::Child child = TRY(start_in_jail(wish));
  const sys::ExitStatus ended = TRY(child.wait());
  if (ended.code != 0)
    return failure(Errc::Internal, fmt::format("{} could not format a disk", kFormatter));
  return {};
}

Result<void> remove_old_templates(int folder) {
  const auto names = TRY(sys::list_dir(folder, 4096));
  const auto count =
      std::ranges::count_if(names, [](const auto& name) { return name.starts_with(kPrefix); });
  if (static_cast<std::size_t>(count) < kDiskTemplatesMax) return {};
  for (const std::string& name : names) {
    if (name.starts_with(kPrefix)) (void)::unlinkat(folder, name.c_str(), 0);
  }
  return {};
}

// Under another name until it is whole.
Result<void> make_template(int folder, const std::string& name, std::uint64_t bytes,
                           std::uint64_t files, int null) {
  TRY(remove_old_templates(folder));
  const std::string making = "making-" + TRY(SandboxId::random()).str();
  const UniqueFd file =
      TRY(sys::open_at(folder, making, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  auto made = [&]() -> Result<void> {
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
      return sys_failure("size a disk", errno);
    TRY(format(file.get(), files, null));
    if (::renameat(folder, making.c_str(), folder, name.c_str()) != 0)
      return sys_failure("name a disk", errno);
    return {};
  }();
  if (!made) (void)::unlinkat(folder, making.c_str(), 0);
  return made;
}

}  // namespace

Result<UniqueFd> copy_disk(int folder, int from) {
  UniqueFd to = TRY(sys::open_at(folder, ".", O_RDWR | O_TMPFILE, 0600));
  TRY(sys::clone_file(from, to.get()));
  return to;
}

Result<UniqueFd> make_disk(int folder, std::uint64_t bytes, std::uint64_t files, int null) {
  if (bytes < kDiskBytesMin || bytes > kDiskBytesMax) {
    return bad_field("resource_limits.disk",
                     fmt::format("disk: a microVM's disk takes {} to {} MiB", kDiskBytesMin / kMib,
                                 kDiskBytesMax / kMib));
  }
  bytes = (bytes + kMib - 1) / kMib * kMib;
  files = std::clamp<std::uint64_t>(files, 1024, std::min(kDiskFilesMax, bytes / 2048));
  const std::string name = fmt::format("{}{}-{}", kPrefix, bytes / kMib, files);
  auto found = sys::open_at(folder, name, O_RDONLY | O_NOFOLLOW);
  if (!found) {
    TRY_IN("a machine's disk", make_template(folder, name, bytes, files, null));
    found = sys::open_at(folder, name, O_RDONLY | O_NOFOLLOW);
  }
  const UniqueFd empty = TRY(std::move(found));
  return copy_disk(folder, empty.get());
}

}  // namespace caisson::engine::microvm
