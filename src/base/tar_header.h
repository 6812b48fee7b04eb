// base/tar_header.h — the blocks that stand before an entry of a tar archive, for whoever writes
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace caisson {

inline constexpr std::size_t kTarBlock = 512;

struct TarHeader {
  std::string name{};
  std::string link{};
  char type = '0';  // '0' file, '2' link, '5' folder
  unsigned mode = 0644;
  std::int64_t mtime = 0;
  std::uint64_t size = 0;
};

// With an extended header in front where a field is too small for what it must hold.
[[nodiscard]] std::string tar_header(const TarHeader& entry);

// Bytes between the end of so much content and the next header.
[[nodiscard]] constexpr std::size_t tar_padding(std::uint64_t size) noexcept {
  return static_cast<std::size_t>((kTarBlock - size % kTarBlock) % kTarBlock);
}

}  // namespace caisson
