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
#include "policy/capability.h"

namespace caisson::engine {

inline constexpr std::size_t kFoldersMax = 24;        // descriptors of one launch
inline constexpr std::size_t kWritablePathsMax = 64;  // private ones
inline constexpr std::size_t kAliasesMax = 16;
inline constexpr std::size_t kHostnameMax = 63;
inline constexpr std::size_t kTrustBytesMax = 8UL * 1024;
inline constexpr std::size_t kLayersMax = 128;       // of one root or view
inline constexpr std::size_t kStoreMountsMax = 160;  // of one launch
inline constexpr std::size_t kStoreNameMax = 80;
inline constexpr std::uint32_t kIdsPerSlot = 65536;
using seccomp::kInitId;

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

// A second place where one of the private writable folders is shown.
struct Alias {
  std::string at;
  std::string of;  // one of LaunchRequest::writable

  friend bool operator==(const Alias&, const Alias&) = default;
};

// What a root is made of: layers of the launcher's store, topmost first, and below them the host
// image or nothing.
struct LayerStack {
  std::vector<std::string> layers;
  bool host = true;

  friend bool operator==(const LayerStack&, const LayerStack&) = default;
};

// Where a sandbox's writable layer lies. /tmp, /run and /dev/shm are in memory in either case.
enum class Storage : std::uint8_t {
  Memory,  // with the sandbox it goes
  Disk,    // in the launcher's store: as large as its limit says, and it can be sealed in a moment
};

// Something of the launcher's store that is shown inside, by name: there is no path to abuse.
struct StoreMount {
  enum class Kind : std::uint8_t {
    View,    // `stack` as one tree, read-only
    Layer,   // layer `name` as it lies on disk, parts and marks and all, read-only
    Upper,   // the writable layer of the living sandbox `name`, as Layer
    Volume,  // volume `name`
    Target,  // a new layer in the making, empty; commit_layer() gives it its name
  };
  Kind kind = Kind::View;
  std::string at;    // absolute path inside
  std::string name;  // see Kind
  LayerStack stack;
  bool read_only = true;        // Volume
  std::uint64_t bytes_max = 0;  // Target: what it may hold; 0: no bound

  friend bool operator==(const StoreMount&, const StoreMount&) = default;
};

// Processes that go on where they stood: the sandbox begins with their memory.
struct MemoryImage {
  std::string name;     // in the launcher's store; empty: none, it begins with nobody
  std::string digest;   // what it must be
  std::string runtime;  // what must be there to run it
  // The sandbox that it was taken of, which has ended meanwhile. Any other one is a copy, and gets
  // another identity: name, machine id, random numbers.
  bool same = false;

  friend bool operator==(const MemoryImage&, const MemoryImage&) = default;
};

enum class Program : std::uint8_t {
  Init,   // caisson-init, which serves
  Layer,  // caisson-layer, which does one job: see guest/protocol/layer_job.h
  // caisson-carrier, which plays init for one that another kernel runs: see guest/carrier/carrier.h
  Carrier,
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
  std::string hostname = "caisson";  // empty: its id
  policy::SandboxTier tier = policy::SandboxTier::Native;
  LayerStack stack;
  Storage storage = Storage::Memory;
  bool persistent = false;  // Storage::Disk: its files stay until somebody says destroy
  bool resume = false;  // Storage::Disk: the sandbox of this id had a writable layer, which it gets
  Program program = Program::Init;
  std::vector<StoreMount> store_mounts;
  RootMode root = RootMode::ReadOnly;
  ScratchMode scratch = ScratchMode::Writable;
  WorkspaceMode workspace = WorkspaceMode::Writable;
  std::vector<Folder> folders;        // folder i is descriptor i of the message
  std::vector<std::string> writable;  // paths inside that are made, private and writable
  std::vector<Alias> aliases;
  Limits limits;
  std::uint32_t uid = 1000;  // of the tenant: owner of /workspace and of the folders inside
  std::uint32_t gid = 1000;
  seccomp::Profile profile = seccomp::Profile::Default;
  // A tenant with id 0 may act for the other ids of the sandbox, as the programs of an image expect
  // of root: own and read their files, become them, signal them. Over init and the host it has
  // none.
  bool root_capabilities = false;
  bool gate = false;  // open the sockets of a way out inside, and hand them to whoever asked
  std::vector<std::uint16_t> gate_ports;  // for kernels that cannot steer: see engine/gate.h
  std::uint16_t gate_proxy = 0;  // where the proxy is found beside its own port; 0: nowhere else
  // A certificate, in PEM, that this sandbox trusts beside the host's own; empty: none. It ends up
  // in kTrustFile, with whatever the host has there.
  std::string trust;
  MemoryImage memory;  // its files, as they were at that moment, are what the request says
  bool scope_sockets =
      true;  // Landlock's abstract-socket scope; off for sandboxes that will be checkpointed

  friend bool operator==(const LaunchRequest&, const LaunchRequest&) = default;
};

// Our own word for it: "native", "gvisor", "microvm".
[[nodiscard]] constexpr std::string_view tier_name(policy::SandboxTier tier) noexcept {
  switch (tier) {
    case policy::SandboxTier::Native:
      return "native";
    case policy::SandboxTier::Gvisor:
      return "gvisor";
    case policy::SandboxTier::Microvm:
      return "microvm";
  }
  return "unknown";
}

// Another kernel than the host's runs the tenants: process 1 on the host is a carrier.
[[nodiscard]] constexpr bool is_carried(const LaunchRequest& request) noexcept {
  return request.tier != policy::SandboxTier::Native || request.program == Program::Carrier;
}

// What of a sandbox's limits its groups on the host hold. The tasks of another kernel are not those
// of its tenants, whom init counts (RLIMIT_NPROC there); the host's count is a backstop far above.
inline constexpr std::uint32_t kCarriedTasksMax = 16'384;
// A machine's memory is its own; around it the monitor needs some, too.
inline constexpr std::uint64_t kMachineMemoryDefault = 512ULL << 20U;
inline constexpr std::uint64_t kMonitorBytes = 256ULL << 20U;
inline constexpr std::uint32_t kMonitorTasksMax = 64;
[[nodiscard]] constexpr Limits host_limits(policy::SandboxTier tier, Limits limits) noexcept {
  if (tier != policy::SandboxTier::Native) limits.processes = kCarriedTasksMax;
  if (tier == policy::SandboxTier::Microvm) {
    limits.processes = kMonitorTasksMax;
    if (limits.memory_bytes == 0) limits.memory_bytes = kMachineMemoryDefault;
    limits.memory_bytes += kMonitorBytes;
  }
  return limits;
}

// The name of a layer or volume: lower-case letters, digits, '-', '_' and '.', not at the front.
[[nodiscard]] Result<void> check_store_name(std::string_view name, std::string_view field);

[[nodiscard]] Result<void> check_stack(const LayerStack& stack, std::string_view field);

// The one judge of a request, in the launcher: what comes from a server is never trusted.
[[nodiscard]] Result<void> check(const LaunchRequest& request);

// An absolute path inside a sandbox in one spelling: no "..", no empty part, no NUL or control
// character.
[[nodiscard]] Result<std::string> canonical_guest_path(std::string_view path);

inline constexpr std::string_view kOwnWorkspace = "/workspace";
// The root cannot be written, and a part of it that can lies at /workspace: not where a volume
// does.
[[nodiscard]] bool has_own_workspace(const LaunchRequest& request) noexcept;

// True for `path` itself and everything below it; whole components only.
[[nodiscard]] bool is_below(std::string_view path, std::string_view folder) noexcept;

}  // namespace caisson::engine
