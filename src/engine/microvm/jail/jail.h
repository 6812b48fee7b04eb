// engine/microvm/jail/jail.h — where a monitor runs: it has namespaces of its own for mounts,
// network, IPC, host name and processes, a root with nothing in it but the system's programs and
// the two files that it boots, an id of its sandbox's slot, no capability, no way to get one, and
// whatever else it needs by descriptor. It is inside the groups of its sandbox before it is
// executed. So a guest that takes its monitor over is a process that can reach nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sys/process.h"

namespace caisson::engine::microvm {

// The monitor's id inside the slot: neither init's nor the carrier's.
inline constexpr std::uint32_t kMonitorId = 65533;
inline constexpr std::uint64_t kMonitorFilesMax = 64;

struct JailFile {
  std::string name;                    // at the jail's root
  int source = -1;                     // a file, shown as it is; or
  std::span<const std::byte> content;  // what a file of the jail's own has in it
  bool writable = false;
};

// A tree of somebody else's, as a detached mount; its place is made where its name has no '/'.
struct JailTree {
  std::string at;
  int mount = -1;
};

// What the child copies before anything else, so that its memory is counted where it runs. `to` is
// empty and as large as `from`.
struct JailCopy {
  int from = -1;
  int to = -1;
};

struct JailDescriptor {
  int fd = -1;
  int number = -1;  // what the monitor sees it as: 0, 1, 2, 3… without a gap
};

struct JailWish {
  std::string program;  // below /usr
  std::vector<std::string> arguments;
  std::span<const JailFile> files;
  std::span<const JailTree> trees;
  std::span<const JailCopy> copies;
  std::span<const JailDescriptor> descriptors;
  std::span<const int> tasks;      // files of v1 groups to write "0" to
  int group = -1;                  // folder of the v2 group to be born into; -1: none
  int user_namespace = -1;         // of the slot; -1: the caller's own
  std::uint32_t id = kMonitorId;   // inside that one
  std::uint64_t capabilities = 0;  // there, too
  // The process 1 of a sandbox, by pidfd: it is born into that one's pid namespace, belongs to it,
  // and ends with it. Nobody outside waits for it then. -1: a pid namespace of its own.
  int beside = -1;
  std::uint64_t file_bytes_max = 0;
};

// A child that is no child any more where it was born beside somebody.
[[nodiscard]] Result<sys::Child> start_in_jail(const JailWish& wish);

}  // namespace caisson::engine::microvm
