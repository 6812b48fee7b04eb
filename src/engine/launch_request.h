// engine/launch_request.h — what a launcher is asked to make: plain values, the same in process and
// over its socket. There is no host path in it. Folders of the host come as descriptors that the
// caller could open himself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "engine/seccomp/filter.h"

namespace caisson::engine {

inline constexpr std::size_t kFoldersMax = 24;        // descriptors of one launch
inline constexpr std::size_t kWritablePathsMax = 64;  // private ones
inline constexpr std::size_t kHostnameMax = 63;
inline constexpr std::size_t kTrustBytesMax = 8UL * 1024;
inline constexpr std::uint32_t kIdsPerSlot = 65536;
inline constexpr std::uint32_t kInitId = 65535;  // init's own id inside: no tenant may have it

// Where programs inside look for the authorities that they trust.
inline constexpr std::string_view kTrustFile = "/etc/ssl/certs/ca-certificates.crt";

enum class RootMode : std::uint8_t {
  ReadOnly,  // only /workspace and what is listed can be written
  Writable,  // everything, in a private layer that goes with the sandbox
};

enum class ScratchMode : std::uint8_t { Writable, ReadOnly };  // /tmp, /run and /dev/shm

enum class WorkspaceMode : std::uint8_t { Writable, ReadOnly };  // /workspace

enum class FolderMode : std::uint8_t {
  PrivateCopy,  // what the guest writes goes to its own layer; the host's folder never changes
  ReadOnly,
  Writable,  // the host's own folder
};

struct Folder {
  std::string at;  // absolute path inside
  FolderMode mode = FolderMode::ReadOnly;

  friend bool operator==(const Folder&, const Folder&) = default;
};

// 0 means "no limit" for the first five; a plan says whether that was wished or is all this host
// can do.
struct Limits {
  std::uint64_t memory_bytes = 0;
  std::uint32_t processes = 0;
  std::uint32_t cpu_millis = 0;   // thousandths of a core
  std::uint64_t cpu_time_us = 0;  // user and system time of the whole tree
  std::uint64_t life_us = 0;      // wall time from the launch
  std::uint64_t disk_bytes =
      256ULL << 20U;  // everything private that can be written: layer, /tmp, /run, /dev/shm
  std::uint64_t disk_files = 100'000;
  std::uint32_t open_files = 4096;

  friend bool operator==(const Limits&, const Limits&) = default;
};

struct LaunchRequest {
  std::string
      id;  // SandboxId; empty: the launcher picks one, and may hand out a sandbox that is ready
  std::string hostname = "caisson";
  RootMode root = RootMode::ReadOnly;
  ScratchMode scratch = ScratchMode::Writable;
  WorkspaceMode workspace = WorkspaceMode::Writable;
  std::vector<Folder> folders;        // folder i is descriptor i of the message
  std::vector<std::string> writable;  // paths inside that are made, private and writable
  Limits limits;
  std::uint32_t uid = 1000;  // of the tenant: owner of /workspace and of the folders inside
  std::uint32_t gid = 1000;
  seccomp::Profile profile = seccomp::Profile::Default;
  bool gate = false;  // open the sockets of a way out inside, and hand them to whoever asked
  std::vector<std::uint16_t> gate_ports;  // for kernels that cannot steer: see engine/gate.h
  // A certificate, in PEM, that this sandbox trusts beside the host's own; empty: none. It ends up
  // in kTrustFile, with whatever the host has there.
  std::string trust;
  bool scope_sockets =
      true;  // Landlock's abstract-socket scope; off for sandboxes that will be checkpointed

  friend bool operator==(const LaunchRequest&, const LaunchRequest&) = default;
};

// The one judge of a request, in the launcher: what comes from a server is never trusted.
[[nodiscard]] Result<void> check(const LaunchRequest& request);

// An absolute path inside a sandbox in one spelling: no "..", no empty part, no NUL or control
// character.
[[nodiscard]] Result<std::string> canonical_guest_path(std::string_view path);

// True for `path` itself and everything below it; whole components only.
[[nodiscard]] bool is_below(std::string_view path, std::string_view folder) noexcept;

}  // namespace caisson::engine
