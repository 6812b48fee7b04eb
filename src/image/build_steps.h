// image/build_steps.h — the steps that making and importing an image share. They wait for the disk:
// for the store's threads only.
#pragma once

#include <string>
#include <vector>

#include "image/decompress.h"
#include "image/image.h"

namespace caisson::image {

struct StoredLayer {
  Layer layer;
  Pin pin;
};

// Copies a tar, packed or not, into the store, and says what its plain form is called.
[[nodiscard]] Result<StoredLayer> store_layer(BlobStore& store, const FilePart& part);
// A layer of what has been written to an ingest already: a plain tar.
[[nodiscard]] Result<StoredLayer> store_plain(BlobStore& store, Ingest ingest);

// Writes the config and a manifest for these layers.
[[nodiscard]] Result<PulledImage> store_image(BlobStore& store, const Reference& reference,
                                              const std::string& config_text,
                                              std::vector<StoredLayer> layers);

}  // namespace caisson::image
