#include "engine/gvisor/box.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "sys/file.h"
#include "sys/mount.h"
#include "sys/namespace.h"

namespace caisson::engine::gvisor {
namespace {

// By number, because the names are a kernel header's.
enum : unsigned {
  kChown = 0,
  kDacOverride = 1,
  kDacReadSearch = 2,
  kFowner = 3,
  kFsetid = 4,
  kKill = 5,
  kSetgid = 6,
  kSetuid = 7,
  kSetpcap = 8,
  kSysChroot = 18,
  kSysPtrace = 19,
  kSysAdmin = 21,
};
constexpr std::uint64_t bit(unsigned capability) { return 1ULL << capability; }
constexpr const char* kFolderBytes = "8388608";
constexpr const char* kFolderFiles = "512";

}  // namespace

const std::uint64_t kRunscCapabilities = bit(kChown) | bit(kDacOverride) | bit(kDacReadSearch) |
                                         bit(kFowner) | bit(kFsetid) | bit(kKill) | bit(kSetgid) |
                                         bit(kSetuid) | bit(kSetpcap) | bit(kSysChroot) |
                                         bit(kSysPtrace) | bit(kSysAdmin);

Result<void> write_file(int dir, const std::string& name, std::span<const std::byte> content,
                        unsigned mode) {
  const UniqueFd file =
      TRY(sys::open_at(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode));
  const ssize_t put = ::write(file.get(), content.data(), content.size());
  if (put < 0 || static_cast<std::size_t>(put) != content.size())
    return sys_failure("write " + name, put < 0 ? errno : ENOSPC);
  return {};
}

Result<UniqueFd> make_box(const native::Slot& slot, std::span<const std::string> folders) {
  const std::uint32_t owner = slot.ids.host_uid(0);
  UniqueFd root = TRY(sys::new_mount("tmpfs",
                                     {{"size", kFolderBytes},
                                      {"nr_inodes", kFolderFiles},
                                      {"mode", "0755"},
                                      {"uid", std::to_string(owner)},
                                      {"gid", std::to_string(owner)}},
                                     sys::kMountNoSuid | sys::kMountNoDev));
  const sys::ModeMask no_mask(0);
  const sys::FsIdentity identity(owner);
  const UniqueFd folder = TRY(sys::open_at(root.get(), ".", O_RDONLY | O_DIRECTORY));
  for (const std::string& name : folders)
    TRY(sys::make_dir(folder.get(), name, 0755, sys::Existing::Refuse));
  TRY(sys::make_dir(folder.get(), kState, 0700, sys::Existing::Refuse));
  return root;
}

std::vector<std::string> arguments(const Runsc& found) {
  std::vector<std::string> out{"runsc", "--root=/state", "--log=/" + std::string(kLog),
                               "--log-format=json"};
  out.insert(out.end(), found.flags.begin(), found.flags.end());
  return out;
}

void add_words(std::vector<std::string>& out, std::initializer_list<const char*> words) {
  for (const char* word : words) out.emplace_back(word);
}

}  // namespace caisson::engine::gvisor
