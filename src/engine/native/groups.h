// engine/native/groups.h — the control groups of one sandbox.
//
// One v2 group per sandbox is its membership: by it a sandbox is frozen, killed and counted, on
// every host, with or without controllers. init makes a group per exec below it. Limits are set in
// the same group where v2 has the controllers, and in v1 groups of the same name where the host
// still has them there. On v1 the child joins by writing "0" to `tasks` itself: a parent's write to
// cgroup.procs waits milliseconds for a grace period.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/launch_request.h"
#include "engine/native/group_roots.h"
#include "engine/usage.h"

namespace caisson::engine::native {

// Kills what is inside, waits until it is empty, removes the groups, when it is destroyed.
class Groups {
 public:
  // `owner` is init's id on the host: it may make groups below and move what it starts into them.
  [[nodiscard]] static Result<Groups> create(const GroupRoots& roots, const SandboxId& id,
                                             std::uint32_t owner);
  // Takes away what a launcher that died left behind under this id. Nothing there is fine.
  [[nodiscard]] static Result<void> remove_leftover(const GroupRoots& roots, const std::string& id);

  Groups(Groups&& other) noexcept;
  Groups& operator=(Groups&& other) noexcept;
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;
  ~Groups();

  // Before the first process; then change_limits(), which moves those that run where it must.
  [[nodiscard]] Result<void> set_limits(const Limits& limits);
  [[nodiscard]] Result<void> change_limits(const Limits& limits, TimePoint deadline);
  [[nodiscard]] Result<void> freeze(TimePoint deadline);
  [[nodiscard]] Result<void> thaw(TimePoint deadline);
  [[nodiscard]] Result<bool> frozen() const;
  [[nodiscard]] Result<void> kill();
  // The processes of the sandbox as the host counts them, init among them.
  [[nodiscard]] Result<std::vector<std::string>> members() const;
  [[nodiscard]] Result<Usage> usage() const;
  // Of what is ending: what it took in all, and not what it holds now.
  [[nodiscard]] Result<Usage> totals() const;
  [[nodiscard]] Result<std::uint64_t> cpu_time_us() const;

  // What a child needs: the v2 folder to be born into (none where the host gives us no group), the
  // v1 `tasks` files to write "0" to, the file that counts kills.
  [[nodiscard]] Result<UniqueFd> open_v2() const;
  [[nodiscard]] Result<std::vector<UniqueFd>> open_tasks() const;
  [[nodiscard]] Result<UniqueFd> open_oom_counter() const;

  // How the kernel is asked to take back what it can of the memory without moving it elsewhere:
  // `words` into `file`, at most `times`, until it has no more. No file: nobody counts the memory.
  struct Reclaim {
    UniqueFd file;
    std::string words;
    std::uint64_t times = 0;
  };
  [[nodiscard]] Result<Reclaim> open_reclaim() const;

  // Everything is dead: remove the groups and say whether that worked.
  [[nodiscard]] Result<void> remove();

 private:
  Groups() = default;
  [[nodiscard]] Result<void> make_v1(Controller controller);
  void end() noexcept;
  [[nodiscard]] Result<std::vector<std::string>> folders(int v2) const;
  [[nodiscard]] Result<void> move_members(Controller controller);
  [[nodiscard]] Result<void> set_frozen(bool frozen, TimePoint deadline);
  [[nodiscard]] Result<void> set_memory(std::uint64_t bytes);
  [[nodiscard]] Result<void> set_cpu(std::uint32_t millis);
  [[nodiscard]] Result<void> set_pids(std::uint32_t processes);
  [[nodiscard]] Result<UniqueFd> open_for(Controller controller) const;
  void add_memory_totals(int memory, Usage& usage) const;

  // No descriptor is kept: a launcher holds thousands of sandboxes, and opening by name costs two
  // microseconds.
  const GroupRoots* roots_ = nullptr;  // outlives every sandbox; none: there are no groups here
  std::string name_;
  std::array<bool, kControllers> made_v1_{};
  std::array<bool, kControllers> touched_{};
};

// While it lives the sandbox stands still. One that stood still before goes on doing so.
class StandStill {
 public:
  StandStill(Groups& groups, TimePoint deadline) noexcept : groups_(groups), deadline_(deadline) {}
  StandStill(const StandStill&) = delete;
  StandStill& operator=(const StandStill&) = delete;
  ~StandStill();
  [[nodiscard]] Result<void> begin();

 private:
  Groups& groups_;
  TimePoint deadline_;
  bool thaw_ = false;
};

}  // namespace caisson::engine::native
