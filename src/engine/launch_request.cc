#include "engine/launch_request.h"

#include <algorithm>

#include "engine/gate.h"
#include "guest/protocol/protocol.h"
#include "policy/way_out.h"

namespace caisson::engine {
namespace {

constexpr std::uint64_t kDiskBytesMin = 256UL * 1024;
constexpr std::uint64_t kDiskFilesMin = 128;  // our own folders in the layer are a few dozen

// The kernel's own trees and ours: nobody may put a folder on or around them.
constexpr std::string_view kReserved[] = {"/proc", "/dev", "/sys"};

Result<void> check_mount_place(const std::string& path, std::string_view field) {
  const std::string canonical = TRY_IN(field, canonical_guest_path(path));
  if (canonical != path) {
    return failure(Errc::InvalidArgument,
                   std::string(field) + ": write '" + path + "' as '" + canonical + "'");
  }
  if (path == "/")
    return failure(Errc::InvalidArgument, std::string(field) + ": '/' cannot be replaced");
  for (const std::string_view reserved : kReserved) {
    if (is_below(path, reserved) && path != "/dev/shm") {
      return failure(Errc::InvalidArgument, std::string(field) + ": '" + path + "' lies in " +
                                                std::string(reserved) +
                                                ", which belongs to the sandbox");
    }
  }
  return {};
}

Result<void> check_hostname(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  if (name.empty() || name.size() > kHostnameMax || !std::ranges::all_of(name, fits)) {
    return failure(Errc::InvalidArgument,
                   "hostname: want 1 to 63 characters of a-z, 0-9, '-' and '.'");
  }
  return {};
}

Result<void> check_limits(const Limits& limits) {
  if (limits.disk_bytes < kDiskBytesMin) {
    return failure(Errc::InvalidArgument,
                   "disk_bytes: " + std::to_string(limits.disk_bytes) + " is below 256 KiB");
  }
  if (limits.disk_files < kDiskFilesMin) {
    return failure(Errc::InvalidArgument,
                   "disk_files: " + std::to_string(limits.disk_files) + " is below 128");
  }
  if (limits.open_files < 16) return failure(Errc::InvalidArgument, "open_files: want at least 16");
  return {};
}

// Text that stands among certificates: nothing that a reader of PEM could take for something else.
Result<void> check_trust(std::string_view pem) {
  if (pem.empty()) return {};
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/' || c == '=' || c == '-' || c == ' ' || c == '\n';
  };
  const bool framed = pem.starts_with("-----BEGIN CERTIFICATE-----\n") &&
                      pem.ends_with("\n-----END CERTIFICATE-----\n");
  if (pem.size() > kTrustBytesMax || !framed || !std::ranges::all_of(pem, fits)) {
    return failure(Errc::InvalidArgument,
                   "trust: want certificates in PEM and nothing else, at most 8 KiB");
  }
  return {};
}

}  // namespace

bool is_below(std::string_view path, std::string_view folder) noexcept {
  if (folder == "/") return true;
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

Result<std::string> canonical_guest_path(std::string_view path) {
  const auto wrong = [&](std::string_view why) {
    return failure(Errc::InvalidArgument, "path: " + std::string(why));
  };
  if (path.empty() || path.front() != '/')
    return wrong("want an absolute path, got '" + std::string(path) + "'");
  if (path.size() >= wire::kPathMax) return wrong("longer than 4095 bytes");
  if (std::ranges::any_of(path, [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    return wrong("holds a NUL or control character");
  }
  std::string out;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t begin = path.find_first_not_of('/', at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part == "..") return wrong("'..' in '" + std::string(path) + "'");
    if (part.size() > 255) return wrong("a name is longer than 255 bytes");
    if (part != ".") out.append("/").append(part);
    at = end;
  }
  return out.empty() ? std::string("/") : out;
}

bool has_own_workspace(const LaunchRequest& request) noexcept {
  return request.root == RootMode::ReadOnly && request.workspace == WorkspaceMode::Writable &&
         std::ranges::find(request.store_mounts, kOwnWorkspace, &StoreMount::at) ==
             request.store_mounts.end();
}

Result<void> check_store_name(std::string_view name, std::string_view field) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  if (name.empty() || name.size() > kStoreNameMax || !std::ranges::all_of(name, fits) ||
      name.front() == '.' || name.front() == '-') {
    return failure(Errc::InvalidArgument,
                   std::string(field) + ": a name in the store is up to " +
                       std::to_string(kStoreNameMax) +
                       " lower-case letters, digits, '-', '_' and '.', not at the front");
  }
  return {};
}

Result<void> check_stack(const LayerStack& stack, std::string_view field) {
  if (stack.layers.size() > kLayersMax) {
    return failure(Errc::Exhausted,
                   std::string(field) + ": more than " + std::to_string(kLayersMax) + " layers");
  }
  for (const std::string& layer : stack.layers) TRY(check_store_name(layer, field));
  return {};
}

namespace {

Result<void> check_store_mount(const StoreMount& mount) {
  TRY(check_mount_place(mount.at, "store_mounts"));
  TRY(check_stack(mount.stack, "store_mounts"));
  if (mount.kind == StoreMount::Kind::Upper) TRY(SandboxId::parse(mount.name));
  if (mount.kind == StoreMount::Kind::Layer || mount.kind == StoreMount::Kind::Volume)
    TRY(check_store_name(mount.name, "store_mounts"));
  return {};
}

Result<void> check_files(const LaunchRequest& request) {
  TRY(check_stack(request.stack, "stack"));
  if (request.store_mounts.size() > kStoreMountsMax)
    return failure(Errc::Exhausted, "store_mounts: too many");
  for (const StoreMount& mount : request.store_mounts) TRY(check_store_mount(mount));
  const auto targets =
      std::ranges::count(request.store_mounts, StoreMount::Kind::Target, &StoreMount::kind);
  if (targets > 1 || (targets == 1 && request.program != Program::Layer))
    return failure(Errc::InvalidArgument, "store_mounts: one target, of a layer program");
  if (request.resume && (request.id.empty() || request.storage != Storage::Disk))
    return failure(Errc::InvalidArgument, "resume: want an id, and storage on disk");
  return {};
}

Result<void> check_aliases(const LaunchRequest& request) {
  if (request.aliases.size() > kAliasesMax)
    return failure(Errc::Exhausted, "aliases: more than " + std::to_string(kAliasesMax));
  for (const Alias& alias : request.aliases) {
    TRY(check_mount_place(alias.at, "alias"));
    if (std::ranges::find(request.writable, alias.of) == request.writable.end())
      return failure(Errc::InvalidArgument, "alias '" + alias.at + "': '" + alias.of +
                                                "' is not among the writable folders");
    if (is_below(alias.at, alias.of) || is_below(alias.of, alias.at))
      return failure(Errc::InvalidArgument,
                     "alias '" + alias.at + "': it and '" + alias.of + "' lie in each other");
  }
  return {};
}

Result<void> check_memory(const LaunchRequest& request) {
  TRY(check_store_name(request.memory.name, "memory"));
  if (!request.folders.empty() || request.program != Program::Init) {
    return failure(Errc::InvalidArgument,
                   "memory: goes with a sandbox of init's, without folders of the host");
  }
  return {};
}

}  // namespace

Result<void> check(const LaunchRequest& request) {
  TRY(check_aliases(request));
  TRY(check_files(request));
  if (request.gate_ports.size() > kGatePortsMax) {
    return failure(Errc::InvalidArgument,
                   "gate_ports: " + std::to_string(request.gate_ports.size()) + " ports, at most " +
                       std::to_string(kGatePortsMax));
  }
  if (request.gate_proxy == policy::kResolverPort)
    return failure(Errc::InvalidArgument, "gate_proxy: port 53 is the resolver's");
  if (!request.id.empty()) TRY(SandboxId::parse(request.id));
  if (!request.hostname.empty()) TRY(check_hostname(request.hostname));
  TRY(check_limits(request.limits));
  TRY(check_trust(request.trust));
  if (!request.memory.name.empty()) TRY(check_memory(request));
  if (request.folders.size() > kFoldersMax)
    return failure(Errc::Exhausted, "folders: more than 24");
  if (request.writable.size() > kWritablePathsMax)
    return failure(Errc::Exhausted, "writable: more than 64 paths");
  for (const Folder& folder : request.folders) TRY(check_mount_place(folder.at, "folder"));
  for (const std::string& path : request.writable) TRY(check_mount_place(path, "writable"));
  if (request.root_capabilities &&
      std::ranges::count(request.folders, FolderMode::Writable, &Folder::mode) != 0) {
    return failure(Errc::InvalidArgument,
                   "root_capabilities: not beside a folder of the host that can be written");
  }
  if (request.uid >= kInitId || request.gid >= kInitId) {
    return failure(Errc::InvalidArgument, "user: ids inside go from 0 to 65534, got " +
                                              std::to_string(request.uid) + ":" +
                                              std::to_string(request.gid));
  }
  return {};
}

}  // namespace caisson::engine
