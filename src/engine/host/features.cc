#include "engine/host/features.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/gvisor/runsc.h"
#include "engine/host/parse.h"
#include "engine/microvm/driver.h"
#include "sys/file.h"
#include "sys/raw.h"

namespace caisson::engine {
namespace {

constexpr std::size_t kMountinfoMax =
    8UL * 1024 * 1024;  // thousands of mounts; more means no cgroups for us

constexpr ino_t kInitialUserNamespace =
    0xEFFF'FFFD;  // PROC_USER_INIT_INO, the same on every kernel

constexpr auto kRootPathCapabilities = std::to_array<NamedCapability>({
    {CAP_SYS_ADMIN, "sys_admin", "namespaces and mounts"},
    {CAP_SETUID, "setuid", "uid maps of the slots"},
    {CAP_SETGID, "setgid", "gid maps of the slots"},
    {CAP_SETPCAP, "setpcap", "cutting init's bounding set"},
    {CAP_CHOWN, "chown", "files of the store range"},
    {CAP_DAC_OVERRIDE, "dac_override", "files of the store range"},
    {CAP_FOWNER, "fowner", "files of the store range"},
    {CAP_MKNOD, "mknod", "the template of /dev"},
    {CAP_SYS_CHROOT, "sys_chroot", "entering the new root"},
    {CAP_NET_ADMIN, "net_admin", "loopback in the sandbox's network"},
    {CAP_KILL, "kill", "ending processes of other ids"},
});

std::string read_or_empty(const std::string& path, std::size_t max = sys::kSmallFileMax) {
  auto text = sys::read_small(AT_FDCWD, path, max);
  return text ? *std::move(text) : std::string();
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// By the effective ids, which are those that will do the work.
bool writable(const std::string& path) {
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

void probe_identity(HostFeatures& host) {
  utsname name{};
  if (::uname(&name) == 0) {
    host.kernel_release = name.release;
    host.kernel = parse_release(host.kernel_release).value_or(KernelVersion{});
  }
  host.cpus = parse_cpu_list(read_or_empty("/sys/devices/system/cpu/online")).value_or(1);
  host.euid = ::geteuid();
  std::uint64_t permitted = 0;
  if (sys::raw::capget(host.capabilities, permitted) != 0) host.capabilities = 0;
  struct stat user_namespace{};
  host.initial_user_namespace = ::stat("/proc/self/ns/user", &user_namespace) == 0 &&
                                user_namespace.st_ino == kInitialUserNamespace;
  const auto held = [&](const NamedCapability& cap) { return host.has_capability(cap.number); };
  host.privileged = host.initial_user_namespace && std::ranges::all_of(kRootPathCapabilities, held);
}

bool may_make_user_namespaces(const HostFeatures& host) {
  const std::string limit = read_or_empty("/proc/sys/user/max_user_namespaces");
  if (limit.empty() || limit.starts_with('0')) return false;
  if (host.has_capability(CAP_SYS_ADMIN)) return true;
  // Debian's switch, and Ubuntu's: both stop only those without the capability, and mostly do not
  // exist.
  return !read_or_empty("/proc/sys/kernel/unprivileged_userns_clone").starts_with('0') &&
         !read_or_empty("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").starts_with('1');
}

bool has_overlay(const HostFeatures& host) {
  if (lists_filesystem(read_or_empty("/proc/filesystems"), "overlay")) return true;
  const std::string module =
      "/lib/modules/" + host.kernel_release + "/kernel/fs/overlayfs/overlay.ko";
  const auto found = [&](const char* suffix) { return exists(module + suffix); };
  return std::ranges::any_of(std::to_array({"", ".zst", ".xz", ".gz"}), found);
}

void probe_walls(HostFeatures& host) {
  const long abi =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  host.landlock_abi = abi > 0 ? static_cast<int>(abi) : 0;
  const std::uint32_t action = SECCOMP_RET_KILL_PROCESS;
  host.seccomp_filter = ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
  host.user_namespaces = may_make_user_namespaces(host);
  host.overlay = has_overlay(host);
}

// The whole hierarchy is better than a part of it, the first mount better than its copies.
const CgroupMount* choose_v2(const std::vector<CgroupMount>& mounts) {
  const CgroupMount* best = nullptr;
  for (const CgroupMount& mount : mounts) {
    if (mount.kind != CgroupMount::Kind::V2) continue;
    if (best == nullptr || (best->root != "/" && mount.root == "/")) best = &mount;
  }
  return best;
}

void probe_v2(HostFeatures& host, const CgroupMount& mount,
              const std::map<std::string, std::string>& groups) {
  host.cgroup_v2_root = mount.point;
  if (const auto own = groups.find(""); own != groups.end()) {
    host.own_v2_group = host_path_of_group(mount, own->second).value_or("");
  }
  if (!host.own_v2_group.empty()) {
    host.own_v2_delegated = writable(host.own_v2_group) &&
                            writable(host.own_v2_group + "/cgroup.procs") &&
                            writable(host.own_v2_group + "/cgroup.subtree_control");
  }
  const std::string& place = host.privileged ? host.cgroup_v2_root : host.own_v2_group;
  if (!place.empty())
    host.v2_controllers = parse_controllers(read_or_empty(place + "/cgroup.controllers"));
}

void probe_v1(HostFeatures& host, const std::vector<CgroupMount>& mounts,
              const std::map<std::string, std::string>& groups) {
  for (const CgroupMount& mount : mounts) {
    for (const std::string& controller : mount.controllers) {
      if (!host.cgroup_v1.emplace(controller, mount.point).second) continue;
      const auto own = groups.find(controller);
      if (own == groups.end()) continue;
      if (auto path = host_path_of_group(mount, own->second))
        host.own_v1_groups.emplace(controller, *std::move(path));
    }
  }
}

bool accounts_swap(const HostFeatures& host) {
  // Without root the files of v1 are out of reach, so what they could do does not count.
  if (const auto memory = host.cgroup_v1.find("memory");
      host.privileged && memory != host.cgroup_v1.end()) {
    return exists(memory->second + "/memory.memsw.limit_in_bytes");
  }
  if (!host.v2_controllers.contains("memory")) return false;
  // The root group has no memory files at all; then the kernel's support for swap has to be answer
  // enough.
  if (exists(host.own_v2_group + "/memory.max"))
    return exists(host.own_v2_group + "/memory.swap.max");
  return exists("/proc/swaps");
}

void probe_cgroups(HostFeatures& host) {
  const auto mounts = parse_cgroup_mounts(read_or_empty("/proc/self/mountinfo", kMountinfoMax));
  const auto groups = parse_memberships(read_or_empty("/proc/self/cgroup"));
  if (const CgroupMount* v2 = choose_v2(mounts)) probe_v2(host, *v2, groups);
  probe_v1(host, mounts, groups);
  host.swap_accounting = accounts_swap(host);
}

std::optional<SubIds> find_sub_ids(uid_t uid) {
  if (!exists("/usr/bin/newuidmap") || !exists("/usr/bin/newgidmap")) return std::nullopt;
  const std::string user = parse_user_name(read_or_empty("/etc/passwd"), uid).value_or("");
  const auto uids = parse_sub_ids(read_or_empty("/etc/subuid"), user, uid);
  const auto gids = parse_sub_ids(read_or_empty("/etc/subgid"), user, uid);
  if (!uids || !gids) return std::nullopt;
  return SubIds{.uid = *uids, .gid = *gids};
}

}  // namespace

std::span<const NamedCapability> root_path_capabilities() noexcept { return kRootPathCapabilities; }

HostFeatures probe_host() {
  HostFeatures host;
  probe_identity(host);
  probe_walls(host);
  probe_cgroups(host);
  if (!host.privileged) host.sub_ids = find_sub_ids(::getuid());
  host.runsc = gvisor::find_runsc();
  if (const std::string qemu = microvm::qemu_driver().program(); ::access(qemu.c_str(), X_OK) == 0)
    host.qemu = qemu;
  return host;
}

std::string to_string(const HostFeatures& host) {
  std::string text = fmt::format(
      "kernel {} ({}.{})\ncpus {}\neuid {}\ncapabilities {:#x}\ninitial_user_namespace "
      "{}\nprivileged {}\n",
      host.kernel_release, host.kernel.major, host.kernel.minor, host.cpus, host.euid,
      host.capabilities, host.initial_user_namespace, host.privileged);
  text += fmt::format("landlock_abi {}\nseccomp_filter {}\nuser_namespaces {}\noverlay {}\n",
                      host.landlock_abi, host.seccomp_filter, host.user_namespaces, host.overlay);
  text +=
      fmt::format("cgroup_v2_root {}\nv2_controllers {}\nown_v2_group {}\nown_v2_delegated {}\n",
                  host.cgroup_v2_root, fmt::join(host.v2_controllers, ","), host.own_v2_group,
                  host.own_v2_delegated);
  for (const auto& [controller, path] : host.cgroup_v1)
    text += fmt::format("cgroup_v1 {} {}\n", controller, path);
  for (const auto& [controller, path] : host.own_v1_groups) {
    text += fmt::format("own_v1_group {} {}\n", controller, path);
  }
  text += fmt::format("swap_accounting {}\n", host.swap_accounting);
  if (host.sub_ids) {
    text += fmt::format("sub_ids uid {}+{} gid {}+{}\n", host.sub_ids->uid.start,
                        host.sub_ids->uid.count, host.sub_ids->gid.start, host.sub_ids->gid.count);
  }
  text += fmt::format("runsc {}\nqemu {}\n", host.runsc, host.qemu);
  return text;
}

}  // namespace caisson::engine
