// image/tar_index.h — which entries a tar has and where their bytes lie, without unpacking any. For
// archives of images: strict, bounded, and with names that are only ever compared with each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::image {

inline constexpr std::size_t kTarNameBytesMax = 4096;
inline constexpr std::size_t kPaxBytesMax = 64UL * 1024;

enum class TarKind : std::uint8_t { File, Folder, SymLink, HardLink, Other };

struct TarEntry {
  TarKind kind = TarKind::File;
  std::uint64_t offset = 0;  // of its first byte
  std::uint64_t size = 0;
  std::string target;  // of a link
};

struct TarIndex {
  std::map<std::string, TarEntry, std::less<>> entries;  // by name, without "./" and last '/'
  std::string twice;                                     // a name that two entries have
  bool cut = false;  // there are more entries than were asked for

  // A regular file; a symbolic link is followed within the archive, as old docker archives have it
  // for layers that they share. NotFound otherwise.
  [[nodiscard]] Result<TarEntry> file(std::string_view name) const;
};

// At most `entries_max`, of the regular file `fd` from its first byte.
[[nodiscard]] Result<TarIndex> index_tar(int fd, std::size_t entries_max);

}  // namespace caisson::image
