// control/volume_shelf.h — which volumes each tenant has, and where one may be mounted. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "control/file_records.h"

namespace caisson::control {

inline constexpr std::size_t kVolumeNameMax = 40;
inline constexpr std::uint64_t kVolumeBytesMin = 1ULL << 20U;
inline constexpr std::uint64_t kVolumeBytesMax = 16ULL << 40U;

class VolumeShelf {
 public:
  void put(VolumeRecord record);
  [[nodiscard]] const VolumeRecord* find(std::string_view tenant, std::string_view name) const;
  bool remove(std::string_view tenant, std::string_view name);
  [[nodiscard]] std::vector<VolumeRecord> list(std::string_view tenant) const;
  [[nodiscard]] const std::map<std::pair<std::string, std::string>, VolumeRecord>& all() const {
    return records_;
  }

 private:
  std::map<std::pair<std::string, std::string>, VolumeRecord> records_;
};

[[nodiscard]] Result<void> check_volume_name(std::string_view name, std::string_view field);
[[nodiscard]] Result<void> check_volume_bytes(std::uint64_t bytes);

// What the launcher calls it: tenants have the same names and know nothing of each other.
[[nodiscard]] std::string launcher_volume(std::string_view tenant, std::string_view name);

// Judged and canonical: places that are the sandbox's own are no place for a volume, and two of
// them do not lie in each other.
[[nodiscard]] Result<std::vector<VolumeUse>> check_volumes(std::vector<VolumeUse> uses);

}  // namespace caisson::control
