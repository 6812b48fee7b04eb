#include "engine/gvisor/bundle.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>

#include "policy/json_text.h"

namespace caisson::engine::gvisor {
namespace {

namespace json = boost::json;

// What this kernel makes itself, in memory that is charged to the sandbox.
constexpr std::array<std::string_view, 3> kScratch{"/tmp", "/run", "/dev/shm"};
constexpr std::array<std::string_view, 3> kKernels{"/proc", "/dev", "/sys"};
constexpr std::uint64_t kInitFiles = 65'536;

// For init: to become the tenant, to signal and reap it, to hand it files; and in this kernel,
// which is the sandbox's alone, to name the host and to give lo the addresses of the way out.
constexpr const char* kInitCapabilities[] = {
    "CAP_SETUID",           "CAP_SETGID",    "CAP_KILL",      "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",     "CAP_FOWNER",    "CAP_FSETID",    "CAP_SETFCAP",
    "CAP_NET_BIND_SERVICE", "CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_SETPCAP"};
// This kernel gives a program of id 0 whatever the bounding set has, so there is only what the root
// of an image may have (guest/init/capabilities.h), or nothing.
constexpr const char* kRootCapabilities[] = {
    "CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID",          "CAP_SETUID",
    "CAP_SETGID", "CAP_SETFCAP",      "CAP_KILL",   "CAP_NET_BIND_SERVICE"};

template <std::size_t kCount>
json::array list(const char* const (&names)[kCount]) {
  json::array out;
  for (const char* name : names) out.push_back(json::string(name));
  return out;
}

json::array words(std::initializer_list<std::string> strings) {
  json::array out;
  for (const std::string& one : strings) out.push_back(json::string(one));
  return out;
}

json::object process(const LaunchRequest& request) {
  return {{"user", {{"uid", kInitId}, {"gid", kInitId}}},
          {"args", words({std::string(kInitPath), "carried"})},
          {"env", json::array()},
          {"cwd", "/"},
          {"noNewPrivileges", true},
          {"rlimits",
           json::array({{{"type", "RLIMIT_NOFILE"},
                         {"hard", std::max<std::uint64_t>(request.limits.open_files, kInitFiles)},
                         {"soft", kInitFiles}}})},
          {"capabilities",
           {{"effective", list(kInitCapabilities)},
            {"permitted", list(kInitCapabilities)},
            {"bounding", request.root_capabilities ? list(kRootCapabilities) : json::array()},
            {"inheritable", json::array()},
            {"ambient", json::array()}}}};
}

json::object scratch(const LaunchRequest& request, std::string_view at) {
  const bool writable =
      request.root == RootMode::Writable || request.scratch == ScratchMode::Writable;
  return {{"destination", json::string(at)},
          {"type", "tmpfs"},
          {"source", "tmpfs"},
          {"options", words({"size=" + std::to_string(request.limits.disk_bytes), "mode=1777",
                             "nosuid", "nodev", writable ? "rw" : "ro"})}};
}

json::object bound(std::string at, std::string source, const char* mode) {
  return {{"destination", std::move(at)},
          {"type", "bind"},
          {"source", std::move(source)},
          {"options", words({mode, "nosuid", "nodev"})}};
}

// Others write there, too, while the sandbox runs.
bool is_shared(const LaunchRequest& request, const std::string& path) {
  const auto folder = std::ranges::find(request.folders, path, &Folder::at);
  if (folder != request.folders.end()) return folder->mode == FolderMode::Writable;
  const auto mount = std::ranges::find(request.store_mounts, path, &StoreMount::at);
  return mount != request.store_mounts.end() && mount->kind == StoreMount::Kind::Volume;
}

bool lies_in(const std::string& path, std::span<const std::string_view> folders) {
  return std::ranges::any_of(folders,
                             [&](std::string_view folder) { return is_below(path, folder); });
}

}  // namespace

std::vector<bool> mounts_of_their_own(const LaunchRequest& request,
                                      const std::vector<std::string>& places) {
  std::vector<bool> own;
  std::vector<std::string> before;
  for (const std::string& place : places) {
    const std::string path = "/" + place;
    own.push_back(
        is_shared(request, path) || lies_in(path, kScratch) || lies_in(path, kKernels) ||
        std::ranges::any_of(before, [&](const std::string& one) { return is_below(path, one); }));
    if (own.back()) before.push_back(path);
  }
  return own;
}

bool is_scratch(const LaunchRequest& request, const std::string& place) {
  const std::string path = "/" + place;
  return std::ranges::find(kScratch, path) != kScratch.end() &&
         std::ranges::find(request.folders, path, &Folder::at) == request.folders.end() &&
         std::ranges::find(request.store_mounts, path, &StoreMount::at) ==
             request.store_mounts.end() &&
         std::ranges::find(request.writable, path) == request.writable.end() &&
         std::ranges::find(request.aliases, path, &Alias::at) == request.aliases.end();
}

std::string bundle(const LaunchRequest& request, const std::vector<std::string>& own) {
  json::array mounts;
  for (const std::string_view at : kScratch) mounts.push_back(scratch(request, at));
  for (std::size_t i = 0; i < own.size(); ++i)
    mounts.push_back(bound("/" + own[i], std::string(kMountFolder) + std::to_string(i), "rw"));
  mounts.push_back(bound(std::string(kInitPath), std::string(kInitFile), "ro"));
  json::array namespaces;
  for (const char* type : {"pid", "network", "ipc", "uts", "mount"})
    namespaces.push_back({{"type", type}});
  return policy::json_text(
      json::object{{"ociVersion", "1.0.2"},
                   {"process", process(request)},
                   {"root", {{"path", json::string(kRootFolder)}, {"readonly", false}}},
                   {"hostname", request.hostname.empty() ? request.id : request.hostname},
                   {"mounts", mounts},
                   {"linux", {{"namespaces", namespaces}}}});
}

}  // namespace caisson::engine::gvisor
