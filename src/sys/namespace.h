// sys/namespace.h — namespaces made ahead and held by descriptor.
//
// A namespace is made for a helper process that shares our memory (so it costs no copy), prepares
// it from inside, says so, and is ended once we hold the namespace's descriptor. start_… returns at
// once: two or three may be in the making while the caller does something else, on the other core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sys/process.h"

namespace caisson::sys {

struct IdMapping {
  std::uint32_t inside = 0;
  std::uint32_t outside = 0;
  std::uint32_t count = 0;

  friend bool operator==(const IdMapping&, const IdMapping&) = default;
};
using IdMap = std::vector<IdMapping>;

enum class Mounts : std::uint8_t { Shared, Empty };

enum class NestedNamespaces : std::uint8_t { Allowed, Refused };

// /proc/sys for who makes many namespaces. Each of them has names of its own there that are spelt
// the same, and the kernel keeps all that were ever opened in one chain, which it walks at every
// open: among two thousand, for a millisecond. A view of one's own has only what was opened by it.
class SettingsView {
 public:
  // The root of a /proc, for one more namespace; -1 where the host lets us have none: then that of
  // the host does.
  [[nodiscard]] int next() noexcept;

 private:
  static constexpr int kUsesMax = 64;  // more than are ever in the making
  UniqueFd before_;                    // whoever got it may be about to use it
  UniqueFd root_;
  int uses_ = 0;
  bool refused_ = false;
};

class PendingNamespace {
 public:
  // `settings`: of a SettingsView, which stays until the namespace is finished.
  // Refused: user.max_user_namespaces is 0 inside, so not even a process with every capability
  // there can nest. What a namespace's processes take of the kernel by user (inotify instances,
  // waiting signals, message queues) also counts for its owner, an id of the host; without a name
  // that is us.
  [[nodiscard]] static Result<PendingNamespace> start_user(
      const IdMap& users, const IdMap& groups, NestedNamespaces nested,
      std::optional<uid_t> owner = std::nullopt, int settings = -1);
  // Nothing but lo, which is up, and every port open to unprivileged programs. With it, where
  // wanted, a mount namespace that holds nothing but one empty folder, kEmptyFolder: who enters it
  // has nothing of the host to copy and nothing to take off, which costs the kernel a grace period.
  static constexpr const char* kEmptyFolder = "/m";
  [[nodiscard]] static Result<PendingNamespace> start_network(Mounts mounts, int settings = -1);

  PendingNamespace(PendingNamespace&&) noexcept;
  PendingNamespace& operator=(PendingNamespace&& other) noexcept;
  PendingNamespace(const PendingNamespace&) = delete;
  PendingNamespace& operator=(const PendingNamespace&) = delete;
  ~PendingNamespace();

  // Waits until it is prepared and returns its descriptor. Once. The helper may still be dying
  // then: keep the object until there is time to reap it.
  [[nodiscard]] Result<UniqueFd> finish();
  // The empty mount namespace, before finish(). Waits too.
  [[nodiscard]] Result<UniqueFd> mounts();

 private:
  struct Helper;
  PendingNamespace();
  [[nodiscard]] Result<void> launch(std::uint64_t flags, std::optional<uid_t> owner = std::nullopt);
  [[nodiscard]] Result<void> wait();

  // The helper runs on `helper_`'s stack and with our descriptors: it must be reaped before those
  // go, so it stands below. Both ends of both pipes are ours.
  std::unique_ptr<Helper> helper_;
  UniqueFd go_;
  UniqueFd heard_;
  UniqueFd report_;
  UniqueFd said_;
  Child child_;
  const char* link_ = "";
  bool ready_ = false;
};

// The same for the calling thread, which leaves the host's network and mounts for good; and with
// them its System V objects, which cost the kernel another mount.
struct Surroundings {
  UniqueFd network;
  UniqueFd mounts;
  UniqueFd ipc;  // only of the calling thread
};
[[nodiscard]] Result<Surroundings> enter_new_surroundings();

// While it lives the calling process looks at the mounts of another namespace. It comes back to the
// root of its own.
class MountNamespaceVisit {
 public:
  MountNamespaceVisit(int there, int back) noexcept;
  MountNamespaceVisit(const MountNamespaceVisit&) = delete;
  MountNamespaceVisit& operator=(const MountNamespaceVisit&) = delete;
  ~MountNamespaceVisit();
  [[nodiscard]] bool inside() const noexcept { return inside_; }

 private:
  int back_;
  bool inside_ = false;
};

// Gives the host of the process behind `pidfd` another name.
[[nodiscard]] Result<void> rename_host(int pidfd, std::string_view name);

// While it lives the calling thread makes its sockets in another network.
class NetworkNamespaceVisit {
 public:
  // `target` is a network namespace's descriptor, or a pidfd; Gone when nobody is behind it.
  [[nodiscard]] static Result<NetworkNamespaceVisit> begin(int target);
  NetworkNamespaceVisit(NetworkNamespaceVisit&&) noexcept = default;
  NetworkNamespaceVisit& operator=(NetworkNamespaceVisit&&) = delete;
  NetworkNamespaceVisit(const NetworkNamespaceVisit&) = delete;
  NetworkNamespaceVisit& operator=(const NetworkNamespaceVisit&) = delete;
  // Staying would put whatever is made next into one tenant's network: better no process than that.
  ~NetworkNamespaceVisit();

 private:
  explicit NetworkNamespaceVisit(UniqueFd own) noexcept : own_(std::move(own)) {}
  UniqueFd own_;
};

// While it lives the children of the calling thread are born into another pid namespace.
class PidNamespaceVisit {
 public:
  [[nodiscard]] static Result<PidNamespaceVisit> begin(int pidfd);
  PidNamespaceVisit(PidNamespaceVisit&&) noexcept = default;
  PidNamespaceVisit& operator=(PidNamespaceVisit&&) = delete;
  PidNamespaceVisit(const PidNamespaceVisit&) = delete;
  PidNamespaceVisit& operator=(const PidNamespaceVisit&) = delete;
  ~PidNamespaceVisit();

 private:
  explicit PidNamespaceVisit(UniqueFd own) noexcept : own_(std::move(own)) {}
  UniqueFd own_;
};

// Writes a user namespace's maps for a process, "uid_map" and "gid_map".
[[nodiscard]] Result<void> write_id_maps(pid_t pid, const IdMap& users, const IdMap& groups);

// Tells the kernel that this process accepts no group changes: it wants that before an ordinary
// user writes a gid_map.
[[nodiscard]] Result<void> deny_setgroups();

}  // namespace caisson::sys
