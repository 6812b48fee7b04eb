#include "engine/host/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/result.h"

namespace caisson::engine {
namespace {

// The root path mounts overlay layers through idmapped mounts; rootless needs cgroup.kill as its
// newest part.
constexpr KernelVersion kNativeKernelMin{.major = 5, .minor = 19};
constexpr KernelVersion kRootlessKernelMin{.major = 5, .minor = 14};
// From here on signals and abstract sockets are scoped too.
constexpr int kLandlockAbiWanted = 6;
constexpr std::uint32_t kSubIdsMin = 65'536;
constexpr std::uint64_t kOpenFilesWanted = 20'000;

std::string outcome(int trial) {
  if (trial == kNotTried) return "not tried";
  return trial == 0 ? "works" : errno_text(trial);
}

std::string version(KernelVersion v) { return fmt::format("{}.{}", v.major, v.minor); }

Check kernel(const HostFeatures& host) {
  Check check{.name = "kernel",
              .purpose = "namespaces, cgroup.kill, idmapped overlay layers",
              .health = Health::Present,
              .detail = host.kernel_release,
              .remedy = {},
              .needed_for = {Way::Native, Way::Rootless}};
  if (host.kernel < kRootlessKernelMin) {
    check.health = Health::Missing;
  } else if (host.kernel < kNativeKernelMin) {
    check.health = Health::Missing;
    check.needed_for = {Way::Native};
  }
  if (check.health == Health::Missing) {
    check.remedy = fmt::format("use Linux {} or newer ({} without root)", version(kNativeKernelMin),
                               version(kRootlessKernelMin));
  }
  return check;
}

Check privileges(const HostFeatures& host) {
  std::vector<std::string_view> missing;
  for (const NamedCapability& cap : root_path_capabilities()) {
    if (!host.has_capability(cap.number)) missing.push_back(cap.name);
  }
  Check check{.name = "privileges",
              .purpose = "idmapped stores, device nodes, limits for every sandbox",
              .health = host.privileged ? Health::Present : Health::Missing,
              .detail = {},
              .remedy = {},
              .needed_for = {Way::Native, Way::Gvisor, Way::MicroVm}};
  if (host.privileged) {
    check.detail = "root of the host";
  } else if (!host.initial_user_namespace) {
    check.detail = "inside a user namespace";
    check.remedy = "run the launcher as root of the host, or go on rootless";
  } else {
    check.detail = fmt::format("uid {}, without {}", host.euid, fmt::join(missing, ", "));
    check.remedy = "run the launcher as root, or go on rootless";
  }
  return check;
}

Check namespaces(const ExaminedHost& host) {
  Check check{
      .name = "namespaces",
      .purpose = "every sandbox has its own mount, pid, net, ipc, uts and cgroup namespaces",
      .health = host.trials.namespaces == 0 ? Health::Present : Health::Missing,
      .detail = outcome(host.trials.namespaces),
      .remedy = {},
      .needed_for = {native_way(host)}};
  if (check.health == Health::Missing) {
    check.remedy =
        "check user.max_*_namespaces, and the seccomp profile of a surrounding container";
  }
  return check;
}

Check user_namespaces(const ExaminedHost& host) {
  Check check{.name = "user namespaces",
              .purpose = "guest ids mean nothing on the host",
              .health = Health::Present,
              .detail = fmt::format("{} (limit {})", outcome(host.trials.user_namespace),
                                    host.max_user_namespaces),
              .remedy = {},
              .needed_for = {Way::Native, Way::Rootless}};
  if (host.features.user_namespaces && host.trials.user_namespace == 0) return check;
  check.health = Health::Missing;
  if (host.debian_userns_switch_off && !host.features.privileged) {
    check.remedy = "sysctl kernel.unprivileged_userns_clone=1";
  } else if (host.apparmor_restricts_userns && !host.features.privileged) {
    check.remedy =
        "give caisson an AppArmor profile with `userns,`, or "
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0";
  } else {
    check.remedy = "sysctl user.max_user_namespaces=65536";
  }
  return check;
}

Check sub_ids(const ExaminedHost& host) {
  Check check{
      .name = "subordinate ids",
      .purpose = "without root, a sandbox's 65536 ids come from /etc/subuid and /etc/subgid",
      .health = Health::Present,
      .detail = {},
      .remedy = {},
      .needed_for = {Way::Rootless}};
  const auto& ids = host.features.sub_ids;
  if (host.features.privileged) {
    check.detail = "not needed as root";
    return check;
  }
  if (ids) check.detail = fmt::format("{} uids, {} gids", ids->uid.count, ids->gid.count);
  if (ids && std::min(ids->uid.count, ids->gid.count) >= kSubIdsMin) return check;
  check.health = Health::Missing;
  if (!host.tools.contains("newuidmap") || !host.tools.contains("newgidmap")) {
    check.detail = "newuidmap and newgidmap are not installed";
    check.remedy = "install uidmap (Debian, Ubuntu) or shadow-utils (Fedora)";
  } else {
    if (!ids) check.detail = "no range for this user";
    check.remedy = "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER";
  }
  return check;
}

Check seccomp_filter(const HostFeatures& host) {
  return {.name = "seccomp",
          .purpose = "the list of system calls a tenant may make",
          .health = host.seccomp_filter ? Health::Present : Health::Missing,
          .detail = host.seccomp_filter ? "filters work" : "the kernel has no seccomp filters",
          .remedy = host.seccomp_filter ? "" : "use a kernel with CONFIG_SECCOMP_FILTER",
          .needed_for = {Way::Native, Way::Rootless}};
}

Check landlock(const HostFeatures& host) {
  Check check{.name = "Landlock",
              .purpose = "a second wall around files, signals and abstract sockets",
              .health = Health::Present,
              .detail = fmt::format("ABI {}", host.landlock_abi),
              .remedy = {},
              .needed_for = {Way::Native, Way::Rootless}};
  if (host.landlock_abi == 0) {
    check.health = Health::Missing;
    check.detail = "not enabled";
    check.remedy = "add landlock to the kernel's lsm= parameter (Linux 5.13)";
  } else if (host.landlock_abi < kLandlockAbiWanted) {
    check.health = Health::Degraded;
    check.detail += ": signals and abstract sockets are not scoped";
    check.remedy = "Linux 6.12 has ABI 6";
  }
  return check;
}

Check overlay(const ExaminedHost& host) {
  const int trial = host.trials.overlay_mount;
  Check check{.name = "overlay",
              .purpose = "roots in layers: copy on write, snapshots, forks",
              .health = host.features.overlay && trial == 0 ? Health::Present : Health::Missing,
              .detail = outcome(trial),
              .remedy = {},
              .needed_for = {Way::Native, Way::Rootless, Way::Gvisor}};
  if (!host.features.overlay) {
    check.detail = "the kernel does not know it";
    check.remedy = "modprobe overlay, or a kernel with CONFIG_OVERLAY_FS";
  } else if (trial != 0) {
    check.remedy = "rootless overlay needs Linux 5.11; see the kernel log for its reason";
  } else if (!host.features.overlay_layer_options()) {
    check.detail += ", with the old option string (few layers)";
  }
  return check;
}

Check groups(const ExaminedHost& host) {
  const Trials& trials = host.trials;
  Check check{.name = "cgroup v2",
              .purpose = "membership, freeze and kill of everything in a sandbox",
              .health = Health::Present,
              .detail = host.features.cgroup_v2_root,
              .remedy = {},
              .needed_for = {Way::Native, Way::Gvisor, Way::MicroVm}};
  if (host.features.cgroup_v2_root.empty()) {
    check.detail = "not mounted";
    check.remedy = "mount -t cgroup2 none /sys/fs/cgroup/unified";
  } else if (trials.v2_group != 0) {
    check.detail += fmt::format(": make a group: {}", outcome(trials.v2_group));
    check.remedy = host.features.privileged
                       ? "mount the hierarchy read-write"
                       : "run in a delegated group: systemd-run --user --scope -p Delegate=yes …";
  } else if (trials.v2_freeze != 0 || trials.v2_kill != 0) {
    check.detail += ": no cgroup.freeze or cgroup.kill";
    check.remedy = "use Linux 5.14 or newer";
  } else {
    return check;
  }
  // Rootless, a sandbox also ends with its pid namespace: it runs, and a policy that needs more is
  // refused.
  check.health = host.features.privileged ? Health::Missing : Health::Degraded;
  return check;
}

// A controller limits through v2 where it is there, else through v1; v1 is out of reach without
// root.
Check controller(const HostFeatures& host, std::string name, std::string_view v1,
                 std::string purpose, std::vector<Way> needed_for) {
  Check check{.name = fmt::format("{} limit", name),
              .purpose = std::move(purpose),
              .health = Health::Present,
              .detail = {},
              .remedy = {},
              .needed_for = std::move(needed_for)};
  if (host.v2_controllers.contains(name)) {
    check.detail = "cgroup v2";
  } else if (host.privileged && host.cgroup_v1.contains(std::string(v1))) {
    check.detail = "cgroup v1";
  } else {
    // Without root a host rarely delegates them: sandboxes run, and a policy with that limit is
    // refused.
    check.health =
        check.needed_for.empty() || !host.privileged ? Health::Degraded : Health::Missing;
    check.detail = "no controller in reach";
    check.remedy =
        host.privileged
            ? fmt::format("enable the {} controller in the kernel (cgroup_enable={})", name, v1)
            : fmt::format("delegate the {} controller to this user's group", name);
  }
  return check;
}

Check swap_limit(const HostFeatures& host) {
  return {.name = "swap limit",
          .purpose = "a sandbox over its memory limit is ended instead of swapped out",
          .health = host.swap_accounting ? Health::Present : Health::Degraded,
          .detail = host.swap_accounting ? "accounted" : "not accounted",
          .remedy = host.swap_accounting ? "" : "boot with swapaccount=1, or without swap",
          .needed_for = {}};
}

Check disk_quota(const ExaminedHost& host) {
  const bool there = host.features.privileged && host.btrfs && host.loop_devices == 0;
  return {.name = "disk pool",
          .purpose = "quotas and live snapshots from one btrfs pool",
          .health = there ? Health::Present : Health::Degraded,
          .detail = there ? "btrfs and loop devices" : "memory-backed layers only",
          .remedy = there ? "" : "as root: modprobe btrfs loop",
          .needed_for = {}};
}

Check open_files(const ExaminedHost& host) {
  const bool enough = host.open_files_max >= kOpenFilesWanted;
  return {.name = "open files",
          .purpose = "a few descriptors for each live sandbox",
          .health = enough ? Health::Present : Health::Degraded,
          .detail = fmt::format("{} at most", host.open_files_max),
          .remedy = enough ? "" : fmt::format("raise LimitNOFILE to {} or more", kOpenFilesWanted),
          .needed_for = {}};
}

Check tool(const ExaminedHost& host, std::string name, std::string purpose,
           std::vector<Way> needed_for) {
  const auto found = host.tools.find(name);
  const bool there = found != host.tools.end();
  const Health absent = needed_for.empty() ? Health::Degraded : Health::Missing;
  return {.name = name,
          .purpose = std::move(purpose),
          .health = there ? Health::Present : absent,
          .detail = there ? found->second : "not installed",
          .remedy = there ? "" : fmt::format("install {}", name),
          .needed_for = std::move(needed_for)};
}

Check kvm(const ExaminedHost& host) {
  Check check{.name = "/dev/kvm",
              .purpose = "microVMs at the speed of the hardware",
              .health = host.kvm == 0 ? Health::Present : Health::Degraded,
              .detail = "opens",
              .remedy = {},
              .needed_for = {}};
  if (host.kvm == 0) return check;
  check.detail = outcome(host.kvm) + ": guests are emulated, slowly";
  check.remedy = host.kvm == EACCES ? "add this user to the group kvm"
                                    : "enable virtualisation in the firmware or the surrounding VM";
  return check;
}

}  // namespace

std::string_view to_string(Health health) noexcept {
  switch (health) {
    case Health::Present:
      return "present";
    case Health::Degraded:
      return "degraded";
    case Health::Missing:
      return "missing";
  }
  return "unknown";
}

std::string_view to_string(Way way) noexcept {
  switch (way) {
    case Way::Native:
      return "native";
    case Way::Rootless:
      return "rootless";
    case Way::Gvisor:
      return "gvisor";
    case Way::MicroVm:
      return "microvm";
  }
  return "unknown";
}

std::vector<Check> diagnose(const ExaminedHost& host) {
  const HostFeatures& features = host.features;
  return {
      kernel(features),
      privileges(features),
      namespaces(host),
      user_namespaces(host),
      sub_ids(host),
      seccomp_filter(features),
      landlock(features),
      overlay(host),
      groups(host),
      controller(features, "memory", "memory", "an out-of-memory stays inside", {Way::Native}),
      controller(features, "pids", "pids", "a fork bomb stays inside", {Way::Native}),
      controller(features, "cpu", "cpu", "shares and quotas of the processors", {}),
      controller(features, "io", "blkio", "shares of the disks", {}),
      swap_limit(features),
      disk_quota(host),
      open_files(host),
      tool(host, "runsc", "the gVisor tier", {Way::Gvisor}),
      tool(host, "qemu-system-x86_64", "the microVM tier", {Way::MicroVm}),
      kvm(host),
      tool(host, "criu", "forks that keep the memory of processes", {}),
  };
}

bool can_run(std::span<const Check> checks, Way way) {
  return std::ranges::none_of(checks, [&](const Check& check) {
    return check.health == Health::Missing &&
           std::ranges::find(check.needed_for, way) != check.needed_for.end();
  });
}

Way native_way(const ExaminedHost& host) {
  return host.features.privileged ? Way::Native : Way::Rootless;
}

}  // namespace caisson::engine
