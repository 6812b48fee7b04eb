// image — what an OCI image is, where it comes from, and its content by digest.
// Start at Puller::pull() (puller.h): a Reference is resolved once to a digest, its manifest and
// config are parsed as hostile texts, and its layers' blobs go into the BlobStore, each verified
// while it streams. import.h brings the same from an archive, export.h takes it out again, build.h
// makes one out of layers. The process that holds this has no privileges, and nothing here unpacks
// a layer: a confined process elsewhere gets the descriptor of a verified blob.
// Never here: mounts, layers on disk, sandboxes, who may pull what.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "image/blob_store.h"
#include "image/config.h"
#include "image/digest.h"
#include "image/manifest.h"
#include "image/reference.h"

namespace caisson::image {

struct Layer {
  Digest digest;  // of the blob
  std::uint64_t size = 0;
  std::string media_type;
  Packing packing = Packing::Plain;
  Digest diff_id;  // of the plain tar: the name of the layer when unpacked
};

// An image whose blobs are all in the store. It came from a registry, an archive or layers of ours.
struct PulledImage {
  Reference reference;  // as asked for
  Digest resolved;      // what the tag stood for: the manifest, or the index that led to it
  Digest manifest_digest;
  std::string media_type;  // of the manifest
  std::uint64_t manifest_size = 0;
  Digest config_digest;
  std::uint64_t config_size = 0;
  std::string config_type;
  ImageConfig config;
  std::vector<Layer> layers;  // the lowest first
  std::vector<Pin> pins;      // keep the blobs until the image is on record

  [[nodiscard]] std::uint64_t layer_bytes() const noexcept;
};

// Every blob that must stay while the image does: manifest, config, layers.
[[nodiscard]] std::set<Digest> blobs_of(const PulledImage& image);

// The image of a manifest that is in the store, for whoever kept only its digest. Manifest and
// config are verified; layers must be there with their size, and are verified when opened.
awaitable<Result<PulledImage>> load_image(BlobStore& store, Reference reference,
                                          Digest manifest_digest);

// For this room: one image out of its parts. As many diff_ids as layers, and the platform that was
// asked for, or it is refused.
struct ImageParts {
  Reference reference;
  Digest manifest_digest;
  std::uint64_t manifest_size = 0;
  Manifest manifest;
  std::string config_text;
  std::optional<Platform> platform;  // the one that was asked for
};
[[nodiscard]] Result<PulledImage> assemble(const ImageParts& parts);

}  // namespace caisson::image
