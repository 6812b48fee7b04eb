#include "control/volume_shelf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "control/guest_path.h"
#include "control/text.h"
#include "store/digest.h"

namespace caisson::control {
namespace {

constexpr std::size_t kTenantHexDigits = 24;

// The kernel's, the engine's and the system's own: what is mounted there would hide what a sandbox
// needs to run, or be hidden by it.
constexpr std::array<std::string_view, 14> kReserved = {
    "/proc", "/sys",  "/dev", "/run",   "/tmp",   "/etc",    "/usr",
    "/bin",  "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot"};

bool fits(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

Result<void> check_place(const std::string& at, const std::string& field) {
  if (at == "/")
    return bad_field(field,
                     fmt::format("{} is '{}': want a folder of its own, as /data", field, at));
  for (const std::string_view reserved : kReserved) {
    if (engine::is_below(at, reserved))
      return bad_field(field, fmt::format("{} is '{}': {} is the sandbox's own; want a folder of "
                                          "its own, as /data",
                                          field, cut_text(at, 200), reserved));
  }
  return {};
}

}  // namespace

void VolumeShelf::put(VolumeRecord record) {
  std::pair<std::string, std::string> key{record.tenant, record.name};
  records_[std::move(key)] = std::move(record);
}

const VolumeRecord* VolumeShelf::find(std::string_view tenant, std::string_view name) const {
  const auto at = records_.find({std::string(tenant), std::string(name)});
  return at == records_.end() ? nullptr : &at->second;
}

bool VolumeShelf::remove(std::string_view tenant, std::string_view name) {
  return records_.erase({std::string(tenant), std::string(name)}) > 0;
}

std::vector<VolumeRecord> VolumeShelf::list(std::string_view tenant) const {
  std::vector<VolumeRecord> out;
  for (const auto& [key, record] : records_) {
    if (key.first == tenant) out.push_back(record);
  }
  return out;
}

Result<void> check_volume_name(std::string_view name, std::string_view field) {
  if (!name.empty() && name.size() <= kVolumeNameMax && std::ranges::all_of(name, fits) &&
      name.front() != '.' && name.front() != '-')
    return {};
  return bad_field(std::string(field),
                   fmt::format("{} is '{}': want 1 to {} characters of a-z, 0-9, '-', '_' and '.', "
                               "beginning with a letter or digit",
                               field, cut_text(name, 80), kVolumeNameMax));
}

Result<void> check_volume_bytes(std::uint64_t bytes) {
  if (bytes >= kVolumeBytesMin && bytes <= kVolumeBytesMax) return {};
  return bad_field("bytes_max", fmt::format("bytes_max is {}: want {} to {}", bytes,
                                            kVolumeBytesMin, kVolumeBytesMax));
}

std::string launcher_volume(std::string_view tenant, std::string_view name) {
  return "v" + store::to_hex(store::sha256(tenant)).substr(0, kTenantHexDigits) + "-" +
         std::string(name);
}

Result<std::vector<VolumeUse>> check_volumes(std::vector<VolumeUse> uses) {
  if (uses.size() > kSandboxVolumesMax)
    return bad_field("volumes", fmt::format("volumes: {} are too many, want at most {}",
                                            uses.size(), kSandboxVolumesMax));
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::string field = fmt::format("volumes[{}]", i);
    TRY(check_volume_name(uses[i].name, field + ".name"));
    if (!uses[i].at.starts_with('/'))
      return bad_field(field + ".at", fmt::format("{}.at is '{}': want an absolute path", field,
                                                  cut_text(uses[i].at, 200)));
    uses[i].at = TRY(guest_path(uses[i].at, "/", field + ".at"));
    TRY(check_place(uses[i].at, field + ".at"));
    for (std::size_t j = 0; j < i; ++j) {
      if (engine::is_below(uses[i].at, uses[j].at) || engine::is_below(uses[j].at, uses[i].at))
        return bad_field(field + ".at", fmt::format("{}.at is '{}': it lies in '{}', or that in it",
                                                    field, uses[i].at, uses[j].at));
    }
  }
  return uses;
}

}  // namespace caisson::control
