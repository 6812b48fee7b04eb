// Limits of a sandbox that runs already.
//
// On v1 a group is made when its limit is first asked for. When that happens after the launch, the
// processes are elsewhere and have to be moved: frozen meanwhile, because a process that forks
// between our look and our write would leave a child outside. What they have been charged with
// before stays where it is; from here on everything counts.
#include <algorithm>
#include <cerrno>
#include <sstream>

#include "engine/native/groups.h"
#include "sys/file.h"

namespace caisson::engine::native {
namespace {

constexpr std::size_t kMemberBytesMax = std::size_t{16} << 20U;
constexpr std::size_t kExecGroupsMax = 4096;

Result<void> move_members(int from, const std::string& group, const std::vector<UniqueFd>& to) {
  std::istringstream pids(TRY(sys::read_small(from, group + "cgroup.procs", kMemberBytesMax)));
  for (std::string pid; pids >> pid;) {
    for (const UniqueFd& folder : to) {
      const auto moved = sys::write_once(folder.get(), "cgroup.procs", pid);
      // A zombie that was still listed has nothing left to count.
      if (!moved && moved.error().sys_errno != ESRCH) return moved;
    }
  }
  return {};
}

Result<void> move_all(int group, const std::vector<UniqueFd>& to) {
  TRY(move_members(group, "", to));
  for (const std::string& child : TRY(sys::list_dir(group, kExecGroupsMax))) {
    if (child.starts_with('e')) TRY(move_members(group, child + "/", to));
  }
  return {};
}

}  // namespace

Result<void> Groups::change_limits(const Limits& limits, TimePoint deadline) {
  const auto before = made_v1_;
  TRY(set_limits(limits));
  std::vector<UniqueFd> fresh;
  for (const Controller controller : {Controller::Memory, Controller::Pids, Controller::Cpu}) {
    const auto at = static_cast<std::size_t>(controller);
    if (made_v1_[at] && !before[at]) fresh.push_back(TRY(open_for(controller)));
  }
  if (fresh.empty()) return {};
  const UniqueFd v2 = TRY(open_v2());
  const std::string state = TRY(sys::read_small(v2.get(), "cgroup.freeze", 16));
  if (state.starts_with('1')) return move_all(v2.get(), fresh);
  Result<void> moved = freeze(deadline);
  if (moved) moved = move_all(v2.get(), fresh);
  TRY(thaw(deadline));
  return moved;
}

}  // namespace caisson::engine::native
