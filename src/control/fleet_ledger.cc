// What each tenant keeps on the server's disk, and how much that may be.
#include <fmt/format.h>

#include <algorithm>

#include "control/fleet_impl.h"

namespace caisson::control {

// What a snapshot weighs is known when it is on the disk. Before, it is as much as its sandbox may
// have written.
std::uint64_t FleetImpl::tenant_bytes(const std::string& tenant) const {
  std::uint64_t sum = 0;
  for (const auto& [id, record] : files_.snapshots.all()) {
    if (record.tenant != tenant) continue;
    std::uint64_t bytes = record.bytes;
    const auto at = living_.find(record.sandbox);
    if (!record.durable && at != living_.end())
      bytes = std::max(bytes, at->second->limits.disk_bytes);
    sum += bytes + (record.memory ? record.memory->bytes : 0);
  }
  for (const ImageView& image : files_.images.list(tenant)) sum += image.bytes;
  for (const VolumeRecord& volume : files_.volumes.list(tenant)) sum += volume.bytes_max;
  return sum;
}

Result<void> FleetImpl::has_room(const std::string& tenant, std::uint64_t more,
                                 std::uint64_t instead) const {
  const std::uint64_t sum = tenant_bytes(tenant) - instead;
  if (sum < kTenantStoreBytesMax && more <= kTenantStoreBytesMax - sum) return {};
  return failure(Errc::Exhausted,
                 fmt::format("snapshots, images and volumes have {} MiB, this wants {} MiB more, "
                             "and {} MiB are the limit; remove some of them first",
                             sum >> 20U, more >> 20U, kTenantStoreBytesMax >> 20U));
}

}  // namespace caisson::control
