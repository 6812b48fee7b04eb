// image/build.h — an image out of layers that we have: a config and a manifest are written for
// them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "image/image.h"

namespace caisson::image {

// One layer: either a tar by descriptor (a regular file; plain, gzip or zstd, which its first bytes
// tell), or one that is in the store already.
struct LayerSource {
  UniqueFd fd;
  std::optional<Layer> stored;
};

// config.diff_ids is set from the layers. The layers are copied into the store and verified.
awaitable<Result<PulledImage>> make_image(BlobStore& store, Reference reference, ImageConfig config,
                                          std::vector<LayerSource> layers);

}  // namespace caisson::image
