#include "engine/host/examine.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "base/unique_fd.h"
#include "engine/host/parse.h"
#include "sys/file.h"

namespace caisson::engine {
namespace {

constexpr int kChildLost = ECHILD;
constexpr int kNamespaces =
    CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

std::string read_or_empty(const std::string& path) {
  auto text = sys::read_small(AT_FDCWD, path);
  return text ? *std::move(text) : std::string();
}

// Runs `attempt` in a process of its own, which ends with the errno it returns: whatever it did
// ends with it.
template <class Attempt>
int try_apart(Attempt attempt) {
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) ::_exit(attempt());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return kChildLost;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kChildLost;
}

// A user may map himself, and only himself, without help: enough to own files inside.
int map_self(uid_t uid, gid_t gid) {
  const auto write = [](const char* path, const std::string& text) {
    const auto written = sys::write_once(AT_FDCWD, path, text);
    return written ? 0 : written.error().sys_errno;
  };
  if (const int error = write("/proc/self/setgroups", "deny"); error != 0) return error;
  if (const int error = write("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1"); error != 0)
    return error;
  return write("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1");
}

int enter_namespaces(bool privileged) {
  if (privileged) return ::unshare(kNamespaces) == 0 ? 0 : errno;
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  return ::unshare(kNamespaces | CLONE_NEWUSER) == 0 ? map_self(uid, gid) : errno;
}

// On a tmpfs of the child's own, so nothing is written and nothing is left.
int mount_overlay(bool privileged) {
  if (const int error = enter_namespaces(privileged); error != 0) return error;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return errno;
  if (::mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=0700") != 0)
    return errno;
  for (const char* folder : {"/tmp/lower", "/tmp/upper", "/tmp/work", "/tmp/root"}) {
    if (::mkdir(folder, 0700) != 0) return errno;
  }
  constexpr const char* kOptions =
      "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work,userxattr,volatile";
  if (::mount("overlay", "/tmp/root", "overlay", MS_NOSUID | MS_NODEV, kOptions) != 0) return errno;
  const UniqueFd file(::open("/tmp/root/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  return file ? 0 : errno;
}

int presence(const std::string& path) { return ::access(path.c_str(), F_OK) == 0 ? 0 : errno; }

void try_v2_group(const HostFeatures& host, Trials& trials) {
  const std::string& place = host.privileged ? host.cgroup_v2_root : host.own_v2_group;
  if (place.empty()) return;
  const std::string group = place + "/caisson-doctor-" + std::to_string(::getpid());
  if (::mkdir(group.c_str(), 0700) != 0) {
    trials.v2_group = errno;
    return;
  }
  trials.v2_freeze = presence(group + "/cgroup.freeze");
  trials.v2_kill = presence(group + "/cgroup.kill");
  trials.v2_group = ::rmdir(group.c_str()) == 0 ? 0 : errno;
}

Trials run_trials(const HostFeatures& host) {
  Trials trials;
  trials.user_namespace = try_apart([] { return ::unshare(CLONE_NEWUSER) == 0 ? 0 : errno; });
  trials.namespaces = try_apart([&] { return enter_namespaces(host.privileged); });
  if (trials.namespaces == 0)
    trials.overlay_mount = try_apart([&] { return mount_overlay(host.privileged); });
  try_v2_group(host, trials);
  return trials;
}

// Only the system's own folders: a PATH with a writable folder in it must not decide what doctor
// believes.
std::map<std::string, std::string> find_tools() {
  static constexpr auto kTools =
      std::to_array<std::string_view>({"runsc", "qemu-system-x86_64", "firecracker", "criu",
                                       "newuidmap", "newgidmap", "btrfs", "git"});
  static constexpr auto kFolders = std::to_array<std::string_view>(
      {"/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin", "/bin", "/sbin"});
  std::map<std::string, std::string> found;
  for (const std::string_view tool : kTools) {
    for (const std::string_view folder : kFolders) {
      const std::string path = std::string(folder) + "/" + std::string(tool);
      if (::access(path.c_str(), X_OK) == 0) found.emplace(tool, path);
    }
  }
  return found;
}

int try_open(const char* path) {
  const UniqueFd file(::open(path, O_RDWR | O_CLOEXEC));
  return file ? 0 : errno;
}

}  // namespace

ExaminedHost examine_host() {
  ExaminedHost host;
  host.features = probe_host();
  host.trials = run_trials(host.features);
  host.tools = find_tools();
  host.kvm = try_open("/dev/kvm");
  host.loop_devices = presence("/dev/loop-control");
  host.btrfs = lists_filesystem(read_or_empty("/proc/filesystems"), "btrfs");
  const std::string limit = read_or_empty("/proc/sys/user/max_user_namespaces");
  host.max_user_namespaces = limit.substr(0, limit.find('\n'));
  host.debian_userns_switch_off =
      read_or_empty("/proc/sys/kernel/unprivileged_userns_clone").starts_with('0');
  host.apparmor_restricts_userns =
      read_or_empty("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").starts_with('1');
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) host.open_files_max = files.rlim_max;
  return host;
}

}  // namespace caisson::engine
