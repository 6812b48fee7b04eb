#include "engine/native/devices.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

#include "sys/file.h"
#include "sys/mount.h"

namespace caisson::engine::native {
namespace {

struct Node {
  const char* name;
  unsigned major;
  unsigned minor;
};
constexpr Node kNodes[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                           {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};

struct Link {
  const char* name;
  const char* target;
};
constexpr Link kLinks[] = {{"fd", "/proc/self/fd"},
                           {"stdin", "/proc/self/fd/0"},
                           {"stdout", "/proc/self/fd/1"},
                           {"stderr", "/proc/self/fd/2"},
                           {"ptmx", "pts/ptmx"}};

// What is behind a name must be the device we mean: a mask or a /dev/null that is a file would be a
// hole.
Result<void> verify(int dir, const char* name, const Node& node) {
  struct stat facts{};
  if (::fstatat(dir, name, &facts, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0) {
    return sys_failure(std::string("/dev/") + node.name, errno);
  }
  if (!S_ISCHR(facts.st_mode) || facts.st_rdev != ::makedev(node.major, node.minor)) {
    return failure(Errc::Denied,
                   std::string("/dev/") + node.name + " is not the device it should be");
  }
  return {};
}

Result<void> make_node(int dir, const Node& node) {
  if (::mknodat(dir, node.name, S_IFCHR | 0666, ::makedev(node.major, node.minor)) != 0) {
    return sys_failure(std::string("make /dev/") + node.name, errno);
  }
  return verify(dir, node.name, node);
}

Result<void> make_place(int dir, const Node& node) {
  TRY(sys::open_at(dir, node.name, O_RDONLY | O_CREAT | O_EXCL, 0444));
  return {};
}

}  // namespace

Result<std::vector<Mounted>> borrow_device_nodes() {
  std::vector<Mounted> nodes;
  for (const Node& node : kNodes) {
    UniqueFd host = TRY(sys::clone_mount(AT_FDCWD, std::string("/dev/") + node.name, 0));
    TRY(verify(host.get(), "", node));
    nodes.push_back({std::string("dev/") + node.name, std::move(host)});
  }
  return nodes;
}

Result<UniqueFd> make_device_folder(bool privileged) {
  const sys::ModeMask no_mask(0);
  UniqueFd folder =
      TRY(sys::new_mount("tmpfs", {{"mode", "0755"}, {"size", "64k"}, {"nr_inodes", "32"}},
                         sys::kMountNoSuid | sys::kMountNoExec));
  for (const Node& node : kNodes)
    TRY(privileged ? make_node(folder.get(), node) : make_place(folder.get(), node));
  for (const Link& link : kLinks) {
    if (::symlinkat(link.target, folder.get(), link.name) != 0)
      return sys_failure(std::string("link /dev/") + link.name, errno);
  }
  TRY(sys::make_dir(folder.get(), "pts", 0755, sys::Existing::Refuse));
  TRY(sys::make_dir(folder.get(), "shm", 0755, sys::Existing::Refuse));
  TRY(sys::set_mount_flags(folder.get(), sys::kMountReadOnly));
  return folder;
}

}  // namespace caisson::engine::native
