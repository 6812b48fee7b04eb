// engine/host/examine.h — the thorough question: tries things, instead of reading about them.
// For `caisson doctor` only: it starts short-lived processes and makes and removes one empty group.
// Call it from a single-threaded process.
#pragma once

#include <map>
#include <string>

#include "engine/host/features.h"

namespace caisson::engine {

// How a trial ended: 0 worked, else the errno that stopped it. kNotTried says that an earlier step
// was missing.
inline constexpr int kNotTried = -1;

struct Trials {
  int namespaces = kNotTried;  // a process with its own user (rootless), mount, pid, net, ipc, uts,
                               // cgroup namespaces
  int user_namespace = kNotTried;
  int overlay_mount =
      kNotTried;  // overlay with userxattr and volatile on a tmpfs, inside those namespaces
  int v2_group =
      kNotTried;  // make and remove a group in the place where sandboxes' groups would be
  int v2_freeze = kNotTried;  // that group has cgroup.freeze
  int v2_kill = kNotTried;    // that group has cgroup.kill

  friend bool operator==(const Trials&, const Trials&) = default;
};

struct ExaminedHost {
  HostFeatures features;
  Trials trials;
  std::map<std::string, std::string> tools;  // program → path, those that were found
  int kvm = kNotTried;                       // opening /dev/kvm for writing
  int loop_devices = kNotTried;              // /dev/loop-control is there
  bool btrfs = false;                        // the kernel knows the file system
  std::string max_user_namespaces;
  bool debian_userns_switch_off = false;   // kernel.unprivileged_userns_clone = 0
  bool apparmor_restricts_userns = false;  // kernel.apparmor_restrict_unprivileged_userns = 1
  std::uint64_t open_files_max = 0;        // hard RLIMIT_NOFILE

  friend bool operator==(const ExaminedHost&, const ExaminedHost&) = default;
};

[[nodiscard]] ExaminedHost examine_host();

}  // namespace caisson::engine
