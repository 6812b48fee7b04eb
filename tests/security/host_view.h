// What a sandbox is, seen from the host: its control groups, processes and namespaces. Tests
// compare this with what the sandbox's own answers claim.
#pragma once

#include <dirent.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/sandbox_manager.h"
#include "engine/host/features.h"
#include "engine/native/group_roots.h"

namespace caisson::test {

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string group_name(const std::string& id) {
  return engine::native::GroupRoots::group_name(id);
}

// Where the sandbox's processes are members, on every host.
inline std::string v2_group(const engine::HostFeatures& host, const std::string& id) {
  return host.cgroup_v2_root + "/" + group_name(id);
}

// Where a limit of it stands: the v2 group where that has the controller, else the v1 group.
inline std::string limit_group(const engine::HostFeatures& host, const std::string& controller,
                               const std::string& id) {
  if (host.v2_controllers.contains(controller)) return v2_group(host, id);
  return host.cgroup_v1.at(controller) + "/" + group_name(id);
}

// Every control group of the sandbox, in all hierarchies, that exists.
inline std::vector<std::string> groups_of(const engine::HostFeatures& host, const std::string& id) {
  std::vector<std::string> found;
  std::vector<std::string> roots{host.cgroup_v2_root};
  for (const auto& [controller, mount] : host.cgroup_v1) roots.push_back(mount);
  for (const std::string& root : roots) {
    const std::string path = root + "/" + group_name(id);
    if (std::filesystem::exists(path)) found.push_back(path);
  }
  return found;
}

// All processes of the sandbox, init and those in the groups of execs.
inline std::set<pid_t> members(const engine::HostFeatures& host, const std::string& id) {
  std::set<pid_t> pids;
  const auto take = [&](const std::filesystem::path& folder) {
    std::ifstream file(folder / "cgroup.procs");
    for (pid_t pid = 0; file >> pid;) pids.insert(pid);
  };
  const std::filesystem::path top = v2_group(host, id);
  std::error_code gone;
  take(top);
  for (const auto& entry : std::filesystem::directory_iterator(top, gone)) {
    if (entry.is_directory(gone)) take(entry.path());
  }
  return pids;
}

inline std::string namespace_of(const std::string& pid, const std::string& kind) {
  std::array<char, 64> name{};
  const std::string path = "/proc/" + pid + "/ns/" + kind;
  const ssize_t size = ::readlink(path.c_str(), name.data(), name.size());
  return size > 0 ? std::string(name.data(), static_cast<std::size_t>(size)) : "";
}

// The namespaces that a process does not share with us.
inline std::set<std::string> own_namespaces(pid_t pid) {
  std::set<std::string> own;
  for (const char* kind : {"mnt", "pid", "ipc", "uts", "net", "user", "cgroup"}) {
    const std::string name = namespace_of(std::to_string(pid), kind);
    if (!name.empty() && name != namespace_of("self", kind)) own.insert(name);
  }
  return own;
}

inline bool is_zombie(const std::string& pid) {
  const std::string stat = text_of("/proc/" + pid + "/stat");
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end).starts_with(") Z");
}

// The namespaces in which some process of this machine lives. One that waits for its parent to look
// does not live: for an orphan that is the machine's own process 1.
inline std::set<std::string> inhabited_namespaces() {
  std::set<std::string> all;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    const std::string pid = entry.path().filename().string();
    if (!std::ranges::all_of(pid, [](char c) { return c >= '0' && c <= '9'; }) || is_zombie(pid))
      continue;
    for (const char* kind : {"mnt", "pid", "ipc", "uts", "net", "user", "cgroup"})
      all.insert(namespace_of(pid, kind));
  }
  return all;
}

inline std::uint64_t resident_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Options of a command with another deadline than the usual.
inline control::ExecuteOptions within(milliseconds timeout) {
  control::ExecuteOptions options;
  options.timeout = timeout;
  return options;
}

// Looks until `holds`, or says no at the deadline. For conditions of the kernel that no descriptor
// announces.
inline bool eventually(const std::function<bool()>& holds, seconds patience = seconds(20)) {
  const TimePoint deadline = Clock::now() + patience;
  while (!holds()) {
    if (Clock::now() >= deadline) return false;
    (void)::poll(nullptr, 0, 5);
  }
  return true;
}

}  // namespace caisson::test
