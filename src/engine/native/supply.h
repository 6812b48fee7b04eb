// engine/native/supply.h — id ranges and network namespaces, made ahead where there is time for it.
//
// Making one takes a third of a millisecond and a helper process; a launch takes them ready. A
// service keeps the user namespaces of ended sandboxes for the next ones (their ids are free again,
// nothing else of them is left), and makes network namespaces anew when it is idle: a used one
// would tell its next owner what was counted in it. A single run has no idle time, so it starts all
// three at once and does its other work while they are in the making.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/host/features.h"
#include "engine/launch_request.h"
#include "engine/native/slots.h"
#include "engine/native/stage.h"
#include "sys/namespace.h"

namespace caisson::engine::native {

enum class Lifetime : std::uint8_t {
  OneShot,  // one sandbox, then the process ends: nothing is made ahead, the mount namespace stays
            // the host's
  Service,  // many: own trimmed mount namespace, slots are kept, network namespaces are made ahead
};

// A slot whose number is known and whose namespaces may still be in the making.
struct ReservedSlot {
  Slot slot;
  std::optional<sys::PendingNamespace> users;
  std::optional<sys::PendingNamespace> store;
};

// Starts making the namespaces of a slot of this host. `owner`: whose folder will be shown in it
// first.
[[nodiscard]] Result<ReservedSlot> begin_slot(std::uint32_t index, std::optional<FolderOwner> owner,
                                              int settings);

class Supply {
 public:
  Supply(const HostFeatures& host, Lifetime lifetime) : host_(host), lifetime_(lifetime) {}

  // `state` is the state directory. `clean_up` removes what a killed launcher left behind.
  [[nodiscard]] Result<void> open(int state, SlotTable::CleanUp clean_up);
  // For one who stays: nothing of a killed launcher waits until its slot is needed again.
  [[nodiscard]] Result<void> sweep();
  void close() noexcept;

  void add_surroundings(sys::Surroundings made) { made_.push_back(std::move(made)); }
  // Held until there is time to close them.
  void spend(std::vector<UniqueFd> used);
  // The same for one whose end takes long: another process waits for it.
  void spend_slowly(UniqueFd used) { slow_.push_back(std::move(used)); }
  // Starts what the next launch will need and returns at once; without surroundings when somebody
  // else makes them.
  [[nodiscard]] Result<void> prepare(const LaunchRequest& request,
                                     const std::vector<UniqueFd>& folders, bool has_surroundings);
  [[nodiscard]] Result<ReservedSlot> reserve(const LaunchRequest& request,
                                             const std::vector<UniqueFd>& folders);
  [[nodiscard]] Result<Slot> finish(ReservedSlot reserved);
  // A network of its own, and a mount namespace that is empty where empty_mounts() says so. What
  // comes back stays valid until spend() or refill() is called next.
  struct Around {
    int network = -1;
    int mounts = -1;
    int ipc = -1;
  };
  [[nodiscard]] Result<Around> surroundings();
  // Not rootless, where mounts of the outer namespace are locked together; nor where mounts in the
  // making need a place in the launcher's own namespace.
  [[nodiscard]] static bool empty_mounts(const HostFeatures& host) noexcept {
    return host.privileged && !Stage::needed(host);
  }

  // The sandbox's name stands in the table from before its first trace until after its last.
  [[nodiscard]] Result<void> name(std::uint32_t slot, const SandboxId& id);
  void take_back(Slot slot);

  // Takes from a running sandbox's slot what only a new root needs: descriptors that thousands
  // would hold for nothing. The maps of some are kept, those of others made again.
  void put_by(Slot& slot);
  // All of it again; `init` is in the slot's user namespace, and is not reaped yet.
  [[nodiscard]] Result<void> fetch(Slot& slot, pid_t init);
  // For who has fetched it: puts it by again.
  struct PutBy {
    Supply& supply;
    Slot& slot;
    ~PutBy() { supply.put_by(slot); }
  };
  // Its user namespace alone, for the slot's next sandbox.
  [[nodiscard]] Result<void> fetch_users(Slot& slot, pid_t init) const;

  // The table's descriptor; -1 where slots have no table.
  [[nodiscard]] int table() const noexcept { return table_ ? table_->file() : -1; }

  // One step of making things ahead. False when there is nothing left to make.
  [[nodiscard]] Result<bool> refill();

 private:
  [[nodiscard]] Result<ReservedSlot> start_slot(const LaunchRequest* request,
                                                const std::vector<UniqueFd>* folders);
  void fetch_map(Slot& slot);
  [[nodiscard]] Result<void> complete(Slot& slot);
  [[nodiscard]] static Result<sys::PendingNamespace> start_map(const Slot& slot);
  [[nodiscard]] Result<sys::PendingNamespace> start_surroundings();
  [[nodiscard]] Result<sys::Surroundings> take_surroundings();
  void retire(sys::PendingNamespace used);
  [[nodiscard]] Result<void> close_slow();

  const HostFeatures& host_;
  Lifetime lifetime_;
  sys::SettingsView settings_;
  std::optional<SlotTable> table_;
  SlotTable::CleanUp clean_up_;
  std::vector<Slot> slots_;
  std::map<std::uint32_t, UniqueFd> maps_;  // store maps of running sandboxes, by slot
  std::optional<ReservedSlot> next_slot_;
  std::vector<sys::Surroundings> made_;  // by somebody else, for the next launch
  std::deque<sys::PendingNamespace>
      networks_;  // in the making, or made and waiting with their helpers
  // Helpers that are dead and wait to be reaped; and mounts and namespaces that nobody uses any
  // more: each costs the one who lets go of it a grace period of the kernel, so that is done when
  // there is time.
  std::vector<sys::PendingNamespace> used_up_;
  std::vector<UniqueFd> spent_;
  std::vector<UniqueFd> slow_;
  std::vector<sys::Child> closers_;
};

}  // namespace caisson::engine::native
