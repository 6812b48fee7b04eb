#include "image/image.h"

#include <fmt/core.h>

namespace caisson::image {

std::uint64_t PulledImage::layer_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const Layer& layer : layers) sum += layer.size;
  return sum;
}

std::set<Digest> blobs_of(const PulledImage& image) {
  std::set<Digest> out{image.manifest_digest, image.config_digest};
  for (const Layer& layer : image.layers) out.insert(layer.digest);
  return out;
}

Result<PulledImage> assemble(const ImageParts& parts) {
  PulledImage out;
  out.reference = parts.reference;
  out.resolved = parts.manifest_digest;
  out.manifest_digest = parts.manifest_digest;
  out.manifest_size = parts.manifest_size;
  out.media_type = parts.manifest.media_type;
  out.config_digest = parts.manifest.config.digest;
  out.config_size = parts.manifest.config.size;
  out.config_type = parts.manifest.config.media_type;
  out.config = TRY(parse_config(parts.config_text));
  const std::vector<Descriptor>& layers = parts.manifest.layers;
  if (out.config.diff_ids.size() != layers.size()) {
    return failure(Errc::Protocol, fmt::format("the image has {} layers, and its config names {}",
                                               layers.size(), out.config.diff_ids.size()));
  }
  const Platform& is = out.config.platform;
  if (parts.platform &&
      (is.os != parts.platform->os || is.architecture != parts.platform->architecture)) {
    return failure(Errc::NotFound, fmt::format("the image is for {}, and {} was asked for",
                                               is.str(), parts.platform->str()));
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Packing packing = TRY(packing_of(layers[i].media_type));
    out.layers.push_back(
        {layers[i].digest, layers[i].size, layers[i].media_type, packing, out.config.diff_ids[i]});
  }
  return out;
}

awaitable<Result<PulledImage>> load_image(BlobStore& store, Reference reference,
                                          Digest manifest_digest) {
  std::vector<Pin> pins{store.pin(manifest_digest)};
  const auto text = co_await store.read_verified(manifest_digest, kManifestBytesMax);
  if (!text) co_return std::unexpected(text.error());
  auto document = parse_document(*text, "");
  if (!document) co_return std::unexpected(document.error());
  Manifest* manifest = std::get_if<Manifest>(&*document);
  if (manifest == nullptr)
    co_return failure(Errc::Protocol, "the manifest in the store is an index");
  pins.push_back(store.pin(manifest->config.digest));
  auto config = co_await store.read_verified(manifest->config.digest, kConfigBytesMax);
  if (!config) co_return std::unexpected(config.error());
  for (const Descriptor& layer : manifest->layers) {
    pins.push_back(store.pin(layer.digest));
    const auto size = store.size_of(layer.digest);
    if (!size || *size != layer.size) {
      co_return failure(Errc::NotFound, fmt::format("the layer {} of {} is not in the store; pull "
                                                    "the image again",
                                                    layer.digest.str(), reference.str()));
    }
  }
  const ImageParts parts{std::move(reference), std::move(manifest_digest), text->size(),
                         std::move(*manifest), std::move(*config),         std::nullopt};
  auto image = assemble(parts);
  if (image) image->pins = std::move(pins);
  co_return image;
}

}  // namespace caisson::image
