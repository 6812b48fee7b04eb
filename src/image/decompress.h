// image/decompress.h — gzip and zstd taken off a part of a file, as a stream: bounded by what comes
// out, by how much of it there is for each byte that went in, and by the memory that it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "image/manifest.h"

namespace caisson::image {

inline constexpr int kZstdWindowLogMax = 25;  // 32 MiB of memory
inline constexpr std::uint64_t kRatioMax = 200;
inline constexpr std::uint64_t kRatioFreeBytes = 64ULL * 1024 * 1024;  // any ratio up to here

using ByteSink = std::function<Result<void>(std::span<const std::byte>)>;

struct FilePart {
  int fd = -1;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// By the first bytes.
[[nodiscard]] Result<Packing> packing_of(const FilePart& part);

// The bytes of the part, or what they unpack to, into `sink`. TooLarge beyond `bytes_max`.
[[nodiscard]] Result<void> unwrap(const FilePart& part, Packing packing, std::uint64_t bytes_max,
                                  const ByteSink& sink);

}  // namespace caisson::image
