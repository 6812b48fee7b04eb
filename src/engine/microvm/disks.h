// engine/microvm/disks.h — the writable disk of a machine: a sparse file without a name, so that it
// is gone with the last process that has it open. Formatted once for each size, and copied as far
// as there is anything in it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::engine::microvm {

inline constexpr std::uint64_t kDiskBytesMin = 16ULL << 20U;
inline constexpr std::uint64_t kDiskBytesMax = 1ULL << 40U;
inline constexpr std::uint64_t kDiskFilesMax = 50'000'000;
inline constexpr std::size_t kDiskTemplatesMax = 32;

// A disk of that size below `folder`; whole MiB. Formats where no template fits.
// `null` is the null device.
[[nodiscard]] Result<UniqueFd> make_disk(int folder, std::uint64_t bytes, std::uint64_t files,
                                         int null);

// The same bytes in another file of `folder` without a name: shared where the file system can, else
// copied, holes as holes. Nobody may write to `from` meanwhile.
[[nodiscard]] Result<UniqueFd> copy_disk(int folder, int from);

}  // namespace caisson::engine::microvm
