// engine/host/features.h — what this host can do, as plain values.
// probe_host() is the cheap question `caisson run` asks before it plans: a dozen small reads of
// /proc and /sys, no process, no mount. Planning is pure: it takes a HostFeatures and never looks
// at the host itself. The thorough question, for people, is engine/host/examine.h.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace caisson::engine {

struct KernelVersion {
  int major = 0;
  int minor = 0;

  friend auto operator<=>(const KernelVersion&, const KernelVersion&) = default;
};

// A range of ids on the host that a user may map into a user namespace.
struct IdRange {
  std::uint32_t start = 0;
  std::uint32_t count = 0;

  friend bool operator==(const IdRange&, const IdRange&) = default;
};

struct SubIds {
  IdRange uid;
  IdRange gid;

  friend bool operator==(const SubIds&, const SubIds&) = default;
};

struct HostFeatures {
  std::string kernel_release;  // as uname says it: "6.18.44-generic"
  KernelVersion kernel;        // {0, 0} when the release could not be read
  int cpus = 1;                // online processors

  // Who we are. The effective set is a mask of 1 << CAP_…, all zero when /proc cannot be read.
  uid_t euid = 0;
  std::uint64_t capabilities = 0;
  bool initial_user_namespace = false;
  bool privileged = false;  // in the first user namespace, with all of root_path_capabilities()

  // Walls of the kernel.
  int landlock_abi = 0;          // 0: no Landlock
  bool seccomp_filter = false;   // SECCOMP_SET_MODE_FILTER is known
  bool user_namespaces = false;  // we may create one: limits, sysctls and AppArmor say so
  bool overlay = false;  // known to the kernel, or a module of its that the first mount loads

  // cgroups. Membership, freeze and kill are always v2; limits are v2 where the controllers are,
  // else v1.
  std::string cgroup_v2_root;  // mount point of the unified hierarchy, empty when there is none
  // The controllers of the place where groups would be made: the v2 root when privileged, else
  // own_v2_group.
  std::set<std::string> v2_controllers;
  std::string own_v2_group;  // our own group as a host path, empty when it lies outside the mount
  bool own_v2_delegated = false;  // we may make groups there and move processes between them
  std::map<std::string, std::string> cgroup_v1;      // controller → mount point
  std::map<std::string, std::string> own_v1_groups;  // controller → our own group as a host path
  bool swap_accounting = false;  // swap can be limited: memory.swap.max on v2, memory.memsw.* on v1

  // Rootless: ranges that newuidmap and newgidmap, which are there, will map for us. Not asked for
  // when privileged.
  std::optional<SubIds> sub_ids;

  std::string runsc;  // the program of the gVisor tier, empty when it is not there
  std::string qemu;   // that of the microVM tier

  friend bool operator==(const HostFeatures&, const HostFeatures&) = default;

  [[nodiscard]] bool has_capability(int cap) const noexcept {
    return ((capabilities >> cap) & 1U) != 0;
  }

  // System calls and mount features by the kernel that brought them. Distributions backport rarely
  // and never remove, so the version is a lower bound; each use still reports the kernel's own
  // error.
  [[nodiscard]] bool clone_into_cgroup() const noexcept { return kernel >= KernelVersion{5, 7}; }
  [[nodiscard]] bool cgroup_kill() const noexcept { return kernel >= KernelVersion{5, 14}; }
  [[nodiscard]] bool close_range() const noexcept { return kernel >= KernelVersion{5, 9}; }
  [[nodiscard]] bool pidfd() const noexcept { return kernel >= KernelVersion{5, 3}; }
  [[nodiscard]] bool overlay_userxattr() const noexcept {
    return overlay && kernel >= KernelVersion{5, 11};
  }
  [[nodiscard]] bool idmapped_mounts() const noexcept { return kernel >= KernelVersion{5, 12}; }
  [[nodiscard]] bool overlay_idmapped_layers() const noexcept {
    return overlay && kernel >= KernelVersion{5, 19};
  }
  [[nodiscard]] bool overlay_layer_options() const noexcept {
    return overlay && kernel >= KernelVersion{6, 5};
  }
  [[nodiscard]] bool overlay_layer_descriptors() const noexcept {
    return overlay && kernel >= KernelVersion{6, 13};
  }
};

// Never fails: what cannot be read is what the host does not have, and planning then refuses by
// name.
[[nodiscard]] HostFeatures probe_host();

// What the launcher does as root of the host, capability by capability, and so what it cannot go
// without.
struct NamedCapability {
  int number;
  std::string_view name;
  std::string_view purpose;
};
[[nodiscard]] std::span<const NamedCapability> root_path_capabilities() noexcept;

// Every field on a line of its own, for logs and for the record.
[[nodiscard]] std::string to_string(const HostFeatures& host);

}  // namespace caisson::engine
