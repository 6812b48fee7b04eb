// engine/launcher/memory_digest.h — what a saved memory is known by: a digest of every file in its
// folder, names and sizes included. Blocks of zeros count by their place alone, so a file of a
// machine's memory, most of which is empty, costs what is in it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace caisson::engine {

inline constexpr std::size_t kMemoryFilesMax = 16;

struct MemoryDigest {
  std::uint64_t bytes = 0;  // that take room on the disk
  std::string hex;
};

// `folder` is open for reading. A child process works it out, and says it as text.
[[nodiscard]] Result<MemoryDigest> memory_digest(int folder);
[[nodiscard]] std::string to_text(const MemoryDigest& digest);
[[nodiscard]] Result<MemoryDigest> parse_digest(const std::string& text);

}  // namespace caisson::engine
