// image/manifest.h — the two documents a registry gives for a name: an index (one image per
// platform) and a manifest (one config, many layers). Both are hostile texts: bounded,
// duplicate keys refused, and of exactly one kind. What is not understood is refused, not skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "image/digest.h"

namespace caisson::image {

inline constexpr std::size_t kManifestBytesMax = 4UL * 1024 * 1024;
inline constexpr std::size_t kConfigBytesMax = 4UL * 1024 * 1024;
inline constexpr std::size_t kLayersMax = 128;
inline constexpr std::uint64_t kLayerBytesMax = 16ULL * 1024 * 1024 * 1024;
inline constexpr std::uint64_t kImageBytesMax = 64ULL * 1024 * 1024 * 1024;  // all layers together
inline constexpr std::size_t kIndexEntriesMax = 512;

inline constexpr std::string_view kOciIndexType = "application/vnd.oci.image.index.v1+json";
inline constexpr std::string_view kOciManifestType = "application/vnd.oci.image.manifest.v1+json";
inline constexpr std::string_view kOciConfigType = "application/vnd.oci.image.config.v1+json";
inline constexpr std::string_view kOciLayerType = "application/vnd.oci.image.layer.v1.tar";
inline constexpr std::string_view kOciLayerGzipType = "application/vnd.oci.image.layer.v1.tar+gzip";
inline constexpr std::string_view kOciLayerZstdType = "application/vnd.oci.image.layer.v1.tar+zstd";
inline constexpr std::string_view kDockerListType =
    "application/vnd.docker.distribution.manifest.list.v2+json";
inline constexpr std::string_view kDockerManifestType =
    "application/vnd.docker.distribution.manifest.v2+json";
inline constexpr std::string_view kDockerConfigType =
    "application/vnd.docker.container.image.v1+json";

struct Platform {
  std::string os = "linux";
  std::string architecture;  // "amd64", "arm64"
  std::string variant;       // "v8", or empty: any

  // "linux/arm64/v8", as `--platform` takes it.
  [[nodiscard]] static Result<Platform> parse(std::string_view text);
  [[nodiscard]] std::string str() const;
  friend bool operator==(const Platform&, const Platform&) = default;
};
[[nodiscard]] Platform host_platform();

enum class Packing : std::uint8_t { Plain, Gzip, Zstd };

struct Descriptor {
  std::string media_type;
  Digest digest;
  std::uint64_t size = 0;
  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

struct IndexEntry {
  Descriptor descriptor;
  std::optional<Platform> platform;
  std::string name;  // org.opencontainers.image.ref.name, or io.containerd.image.name
};

struct Index {
  std::string media_type;
  std::vector<IndexEntry> entries;
};

struct Manifest {
  std::string media_type;
  Descriptor config;
  std::vector<Descriptor> layers;  // the lowest first
};

using Document = std::variant<Index, Manifest>;

// `header_type` is the Content-Type it came with, or the media type of the descriptor that led
// here; empty when there was none. It must agree with the text.
[[nodiscard]] Result<Document> parse_document(std::string_view text, std::string_view header_type);

// The one entry for a platform: an exact variant first, then one without, then the first that fits.
// NotFound lists what there is.
[[nodiscard]] Result<IndexEntry> choose(const Index& index, const Platform& platform);

// How a layer's media type says it is packed; Unsupported for foreign layers and unknown types.
[[nodiscard]] Result<Packing> packing_of(std::string_view media_type);

[[nodiscard]] std::string to_json(const Manifest& manifest);

}  // namespace caisson::image
