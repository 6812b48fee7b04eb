// guest/layer/tar_reader.h — the entries of a tar: ustar, pax, GNU's long names and sparse files,
// as the writers of images make them. Where an archive can be read in two ways, it is read as Go's
// archive/tar reads it, so that no other tool sees another tree than we do, or refused.
#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "guest/layer/archive_stream.h"
#include "guest/layer/tar_header.h"

namespace caisson::layer {

inline constexpr std::uint64_t kExtensionBytesMax = std::uint64_t{1024} * 1024;
inline constexpr std::size_t kExtensionsMax = 16;  // before one entry

enum class TarKind {
  File,
  Folder,
  Link,
  HardLink,
  Fifo,
  CharDevice,
  BlockDevice,
  Other,  // what some writer put in for itself; only in an archive from anybody
};

struct TarEntry {
  TarKind kind = TarKind::File;
  std::string name;
  std::string link;
  std::uint64_t size = 0;  // of the file, holes included
  bool sparse = false;
  std::vector<TarRegion> regions;  // of a sparse file: in order, without overlap, inside the size
  std::uint32_t mode = 0;
  std::int64_t uid = 0;  // as the archive says it: whoever uses it looks at its range
  std::int64_t gid = 0;
  struct timespec mtime{};
  std::int64_t device_major = 0;
  std::int64_t device_minor = 0;
  std::vector<Attribute> attributes;
};

class TarReader {
 public:
  // A layer of an image may only hold what its specification has. From anybody there may be types
  // that are one writer's own; they are passed on as Other.
  explicit TarReader(ArchiveStream& stream, Origin origin = Origin::Image)
      : stream_(stream), origin_(origin) {}

  // The next entry; what the caller left of the last one is passed over. Nothing at the end.
  [[nodiscard]] Result<std::optional<TarEntry>> next();
  // The next bytes of this entry as they lie in the archive, at most `bytes_max`; empty at its end.
  [[nodiscard]] Result<std::span<const std::byte>> content(std::uint64_t bytes_max = UINT64_MAX);

 private:
  using Buffer = std::array<std::byte, kTarBlock>;

  [[nodiscard]] Result<bool> read_header(Buffer& block);
  [[nodiscard]] Result<std::string> read_extension(std::uint64_t size);
  [[nodiscard]] Result<void> take_extension(char type, std::uint64_t size);
  [[nodiscard]] Result<TarEntry> make_entry(TarBlock block, std::int64_t size);
  [[nodiscard]] Result<void> take_old_sparse(TarBlock block, TarEntry& entry);
  [[nodiscard]] Result<void> take_new_sparse(TarEntry& entry);
  [[nodiscard]] Result<void> read_sparse_map(TarEntry& entry);
  [[nodiscard]] Result<void> check_regions(const TarEntry& entry) const;
  [[nodiscard]] Result<void> read_inside(std::span<std::byte> out);

  ArchiveStream& stream_;
  Origin origin_;
  bool begun_ = false;         // the first header was a good one
  std::uint64_t left_ = 0;     // of the content
  std::uint64_t padding_ = 0;  // behind it
  std::optional<std::string> long_name_;
  std::optional<std::string> long_link_;
  PaxRecords pax_;
};

}  // namespace caisson::layer
