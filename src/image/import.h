// image/import.h — an image out of an uploaded archive: an OCI layout, what `docker save` writes,
// or a root file system. The archive is a regular file; gzip and zstd around it are taken off into
// a temporary one, within a bound. Blobs are copied from their places and verified; no entry of the
// archive ever becomes a file of that name.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "image/image.h"

namespace caisson::image {

inline constexpr std::uint64_t kArchiveBytesMax = 64ULL * 1024 * 1024 * 1024;  // when unwrapped
inline constexpr std::size_t kArchiveEntriesMax = 16384;  // of a layout or a docker archive
inline constexpr std::size_t kArchiveImagesMax = 256;

enum class ArchiveKind : std::uint8_t { OciLayout, DockerArchive, RootFs };

struct ArchiveInfo {
  ArchiveKind kind = ArchiveKind::RootFs;
  std::vector<std::string> names;  // of the images inside, as the archive writes them
};

struct ImportOptions {
  Reference reference;  // what the image is called from now on
  Platform platform = host_platform();
  std::string pick;  // one of ArchiveInfo::names, where there are several images
};

// What an archive is. `archive` is not consumed; its offset does not matter.
awaitable<Result<ArchiveInfo>> inspect_archive(BlobStore& store, UniqueFd archive);
awaitable<Result<PulledImage>> import_archive(BlobStore& store, UniqueFd archive,
                                              ImportOptions options);

}  // namespace caisson::image
