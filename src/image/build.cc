#include "image/build.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/on_worker.h"
#include "image/blob_store_core.h"
#include "image/build_steps.h"

namespace caisson::image {

namespace {

std::string_view type_of(Packing packing) {
  switch (packing) {
    case Packing::Gzip:
      return kOciLayerGzipType;
    case Packing::Zstd:
      return kOciLayerZstdType;
    case Packing::Plain:
      break;
  }
  return kOciLayerType;
}

Result<FilePart> whole_file(const UniqueFd& fd) {
  struct stat facts{};
  if (::fstat(fd.get(), &facts) != 0) return sys_failure("look at a layer", errno);
  if (!S_ISREG(facts.st_mode)) return bad_field("layers", "a layer is not a regular file");
  return FilePart{fd.get(), 0, static_cast<std::uint64_t>(facts.st_size)};
}

Result<PulledImage> make_here(BlobStore& store, const Reference& reference, ImageConfig config,
                              std::vector<LayerSource> sources) {
  if (sources.size() > kLayersMax) {
    return bad_field("layers", fmt::format("an image has at most {} layers", kLayersMax));
  }
  std::vector<StoredLayer> layers;
  config.diff_ids.clear();
  for (LayerSource& source : sources) {
    if (source.stored) {
      const Pin pin = store.pin(source.stored->digest);
      if (store.size_of(source.stored->digest) != source.stored->size) {
        return failure(Errc::NotFound, fmt::format("the layer {} is not in the store",
                                                   source.stored->digest.str()));
      }
      layers.push_back({*std::move(source.stored), pin});
    } else {
      const FilePart part = TRY(whole_file(source.fd));
      layers.push_back(TRY(store_layer(store, part)));
    }
    config.diff_ids.push_back(layers.back().layer.diff_id);
  }
  return store_image(store, reference, to_json(config), std::move(layers));
}

}  // namespace

Result<StoredLayer> store_layer(BlobStore& store, const FilePart& part) {
  const Packing packing = TRY(packing_of(part));
  Ingest ingest = TRY(store.begin_new(kLayerBytesMax));
  TRY(unwrap(part, Packing::Plain, kLayerBytesMax,
             [&](std::span<const std::byte> bytes) { return ingest.write(bytes); }));
  StoredLayer out;
  if (packing != Packing::Plain) {
    Hasher plain;
    TRY(unwrap(part, packing, kImageBytesMax, [&](std::span<const std::byte> bytes) {
      plain.update(bytes);
      return Result<void>();
    }));
    out.layer.diff_id = plain.finish();
  }
  Stored stored = TRY(store.commit_here(std::move(ingest)));
  out.layer.digest = stored.digest;
  out.layer.size = stored.size;
  out.layer.media_type = type_of(packing);
  out.layer.packing = packing;
  if (packing == Packing::Plain) out.layer.diff_id = stored.digest;
  out.pin = std::move(stored.pin);
  return out;
}

Result<StoredLayer> store_plain(BlobStore& store, Ingest ingest) {
  Stored stored = TRY(store.commit_here(std::move(ingest)));
  StoredLayer out;
  out.layer = {stored.digest, stored.size, std::string(kOciLayerType), Packing::Plain,
               stored.digest};
  out.pin = std::move(stored.pin);
  return out;
}

Result<PulledImage> store_image(BlobStore& store, const Reference& reference,
                                const std::string& config_text, std::vector<StoredLayer> layers) {
  std::vector<Pin> pins;
  Stored config = TRY(store.put_here(config_text));
  Manifest manifest;
  manifest.media_type = kOciManifestType;
  manifest.config = {std::string(kOciConfigType), config.digest, config.size};
  for (StoredLayer& one : layers) {
    manifest.layers.push_back({one.layer.media_type, one.layer.digest, one.layer.size});
    pins.push_back(std::move(one.pin));
  }
  Stored text = TRY(store.put_here(to_json(manifest)));
  pins.push_back(std::move(config.pin));
  pins.push_back(std::move(text.pin));
  const ImageParts parts{reference,           text.digest, text.size,
                         std::move(manifest), config_text, std::nullopt};
  PulledImage image = TRY(assemble(parts));
  image.pins = std::move(pins);
  return image;
}

awaitable<Result<PulledImage>> make_image(BlobStore& store, Reference reference, ImageConfig config,
                                          std::vector<LayerSource> layers) {
  auto work = [&store, reference, config, layers = std::move(layers)]() mutable {
    return make_here(store, reference, std::move(config), std::move(layers));
  };
  co_return co_await on_worker(store.core().pool, std::move(work));
}

}  // namespace caisson::image
