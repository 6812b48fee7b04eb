#include "engine/native/landlock_rules.h"

namespace caisson::engine::native {

std::vector<Rule> landlock_rules(const LaunchRequest& request) {
  std::vector<Rule> rules{{wire::Access::Read, "/"}};
  // Terminals and the null device take ioctl and writes; /proc/self takes a few (comm,
  // oom_score_adj).
  rules.push_back({wire::Access::Device, "/dev"});
  rules.push_back({wire::Access::Device, "/proc"});
  for (const StoreMount& mount : request.store_mounts) {
    if (mount.kind == StoreMount::Kind::Target ||
        (mount.kind == StoreMount::Kind::Volume && !mount.read_only))
      rules.push_back({wire::Access::Write, mount.at});
  }
  if (request.root == RootMode::Writable) {
    rules.push_back({wire::Access::Write, "/"});
    return rules;
  }
  if (request.scratch == ScratchMode::Writable) {
    for (const char* path : {"/tmp", "/run", "/dev/shm"})
      rules.push_back({wire::Access::Write, path});
  }
  if (has_own_workspace(request))
    rules.push_back({wire::Access::Write, std::string(kOwnWorkspace)});
  for (const Folder& folder : request.folders) {
    if (folder.mode != FolderMode::ReadOnly) rules.push_back({wire::Access::Write, folder.at});
  }
  for (const std::string& path : request.writable) rules.push_back({wire::Access::Write, path});
  for (const Alias& alias : request.aliases) rules.push_back({wire::Access::Write, alias.at});
  return rules;
}

}  // namespace caisson::engine::native
