// control/image_options.h — where images come from, and how much of them is taken.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "egress/gate/resolver.h"
#include "image/puller.h"

namespace caisson::control {

inline constexpr std::uint64_t kLayerBytesDefault = 16ULL << 30U;
inline constexpr std::uint64_t kLayerEntriesMax = 4'000'000;
inline constexpr std::uint32_t kUnpackRatioMax = 500;

// What brings an image into the blob store: image::Puller, or a test.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual boost::asio::awaitable<Result<image::PulledImage>> pull(image::PullRequest request) = 0;
};

struct ImageOptions {
  std::string folder;  // of the blobs; empty: this server keeps no images
  std::uint64_t layer_bytes_max = kLayerBytesDefault;  // unpacked
  bool pull_on_create = true;
  bool allow_private = false;       // registries in private networks
  image::RegistryOptions registry;  // its judge is ours
  image::Credentials credentials;
  std::shared_ptr<ImageSource> source;  // instead of registries
};

// Registries are judged as what sandboxes reach: an address inside is none of a registry's business
// unless it is allowed, and loopback only for those that are listed as mirrors or without TLS.
[[nodiscard]] image::AddressJudge judge_of(const ImageOptions& options);

[[nodiscard]] std::shared_ptr<ImageSource> registries(boost::asio::any_io_executor executor,
                                                      image::BlobStore& store,
                                                      const ImageOptions& options,
                                                      std::shared_ptr<egress::Resolver> resolver);

}  // namespace caisson::control
