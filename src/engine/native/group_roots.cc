#include "engine/native/group_roots.h"

#include <fcntl.h>

#include "sys/file.h"

namespace caisson::engine::native {
namespace {

constexpr const char* name_of(Controller controller) noexcept {
  switch (controller) {
    case Controller::Memory:
      return "memory";
    case Controller::Pids:
      return "pids";
    case Controller::Cpu:
      return "cpu";
  }
  return "";
}

Result<UniqueFd> open_parked(const std::string& path) {
  UniqueFd opened = TRY(sys::open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY));
  return sys::park(std::move(opened));
}

// A group hands controllers to its children only while no process is in the group itself. In a
// delegated one that process is us: we move into a child of our own.
Result<void> step_aside(int group) {
  TRY(sys::make_dir(group, "caisson-launcher", 0755, sys::Existing::Accept));
  return sys::write_once(group, "caisson-launcher/cgroup.procs", "0");
}

}  // namespace

Result<GroupRoots> GroupRoots::open(const HostFeatures& host) {
  GroupRoots roots;
  roots.swap_accounting_ = host.swap_accounting;
  TRY(roots.open_v2(host));
  TRY(roots.open_v1(host));
  return roots;
}

Result<void> GroupRoots::open_v2(const HostFeatures& host) {
  const std::string parent = host.privileged ? host.cgroup_v2_root : host.own_v2_group;
  if (parent.empty() || (!host.privileged && !host.own_v2_delegated)) return {};
  v2_ = TRY(open_parked(parent));
  std::string wanted;
  for (const Controller controller : kAllControllers) {
    if (!host.v2_controllers.contains(name_of(controller))) continue;
    wanted += (wanted.empty() ? "+" : " +") + std::string(name_of(controller));
    unified_[index_of(controller)] = true;
  }
  if (wanted.empty()) return {};
  if (!host.privileged) TRY(step_aside(v2_.get()));
  const auto enabled = sys::write_once(v2_.get(), "cgroup.subtree_control", wanted);
  if (!enabled)
    return std::unexpected(enabled.error().within("switch on controllers in " + parent));
  return {};
}

Result<void> GroupRoots::open_v1(const HostFeatures& host) {
  if (!host.privileged) return {};
  for (const Controller controller : kAllControllers) {
    const auto mount = host.cgroup_v1.find(name_of(controller));
    if (on_v2(controller) || mount == host.cgroup_v1.end()) continue;
    v1_[index_of(controller)] = TRY(open_parked(mount->second));
  }
  return {};
}

}  // namespace caisson::engine::native
