// An import runs on one of the store's threads from beginning to end: it is one long copy.
#include "image/import.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "base/on_worker.h"
#include "image/blob_store_core.h"
#include "image/build_steps.h"
#include "image/json.h"
#include "image/tar_index.h"
#include "sys/file.h"

namespace caisson::image {

namespace json = boost::json;

namespace {

// The plain archive: the one that was given, or what was inside it.
struct Opened {
  UniqueFd given;
  std::optional<Ingest> unwrapped;
  UniqueFd plain;  // of the unwrapped one
  FilePart part;
  TarIndex index;
  ArchiveKind kind = ArchiveKind::RootFs;
};

std::string blob_path(const Digest& digest) {
  return fmt::format("blobs/{}/{}", to_string(digest.algorithm()), digest.hex());
}

Result<void> decide_kind(Opened& opened) {
  const auto has = [&](std::string_view name) {
    const auto found = opened.index.entries.find(name);
    return found != opened.index.entries.end() && found->second.kind == TarKind::File;
  };
  if (has("oci-layout") && has("index.json")) {
    opened.kind = ArchiveKind::OciLayout;
  } else if (has("manifest.json")) {
    opened.kind = ArchiveKind::DockerArchive;
  } else {
    return {};
  }
  if (opened.index.cut) {
    return bad_field(
        "archive", fmt::format("an archive of images has at most {} entries", kArchiveEntriesMax));
  }
  if (!opened.index.twice.empty()) {
    return bad_field("archive",
                     fmt::format("the archive has '{}' twice", opened.index.twice.substr(0, 200)));
  }
  return {};
}

Result<Opened> open_archive(BlobStore& store, UniqueFd archive) {
  Opened out;
  struct stat facts{};
  if (::fstat(archive.get(), &facts) != 0) return sys_failure("look at the archive", errno);
  if (!S_ISREG(facts.st_mode)) return bad_field("archive", "it is not a regular file");
  out.given = std::move(archive);
  out.part = {out.given.get(), 0, static_cast<std::uint64_t>(facts.st_size)};
  if (out.part.size > kArchiveBytesMax) {
    return failure(Errc::TooLarge,
                   fmt::format("the archive has more than {} bytes", kArchiveBytesMax));
  }
  const Packing packing = TRY(packing_of(out.part));
  if (packing != Packing::Plain) {
    out.unwrapped = TRY(store.begin_new(kArchiveBytesMax));
    TRY(unwrap(out.part, packing, kArchiveBytesMax,
               [&](std::span<const std::byte> bytes) { return out.unwrapped->write(bytes); }));
    out.plain = TRY(out.unwrapped->reopen());
    out.part = {out.plain.get(), 0, out.unwrapped->offset()};
  }
  out.index = TRY(index_tar(out.part.fd, kArchiveEntriesMax));
  TRY(decide_kind(out));
  return out;
}

Result<std::string> read_text(const Opened& opened, std::string_view name, std::size_t bytes_max) {
  const TarEntry entry = TRY(opened.index.file(name));
  if (entry.size > bytes_max) {
    return failure(Errc::TooLarge, fmt::format("'{}' in the archive has {} bytes, and at most {} "
                                               "are read",
                                               name, entry.size, bytes_max));
  }
  std::string out;
  const FilePart part{opened.part.fd, entry.offset, entry.size};
  TRY(unwrap(part, Packing::Plain, bytes_max, [&](std::span<const std::byte> bytes) {
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Result<void>();
  }));
  return out;
}

// --- an OCI layout

Result<std::string> read_document(const Opened& opened, const Descriptor& descriptor,
                                  std::size_t bytes_max) {
  std::string text = TRY(read_text(opened, blob_path(descriptor.digest), bytes_max));
  if (text.size() != descriptor.size ||
      digest_of(text, descriptor.digest.algorithm()) != descriptor.digest) {
    return failure(Errc::Protocol, fmt::format("{} in the archive is not what its digest says",
                                               blob_path(descriptor.digest)));
  }
  return text;
}

Result<Pin> copy_blob(BlobStore& store, const Opened& opened, const Descriptor& descriptor) {
  Pin pin = store.pin(descriptor.digest);
  const TarEntry entry = TRY(opened.index.file(blob_path(descriptor.digest)));
  if (entry.size != descriptor.size) {
    return failure(Errc::Protocol,
                   fmt::format("{} in the archive has {} bytes, and by the manifest "
                               "there are {}",
                               blob_path(descriptor.digest), entry.size, descriptor.size));
  }
  if (store.size_of(descriptor.digest) == descriptor.size) return pin;
  Ingest ingest = TRY(store.begin_here(descriptor.digest, descriptor.size));
  if (ingest.offset() > 0) TRY(ingest.restart());
  TRY(unwrap({opened.part.fd, entry.offset, entry.size}, Packing::Plain, descriptor.size,
             [&](std::span<const std::byte> bytes) { return ingest.write(bytes); }));
  (void)TRY(store.commit_here(std::move(ingest)));
  return pin;
}

Result<Index> read_layout(const Opened& opened) {
  const std::string text = TRY(read_text(opened, "index.json", kManifestBytesMax));
  auto document = TRY(parse_document(text, ""));
  if (auto* index = std::get_if<Index>(&document)) return std::move(*index);
  return bad_field("archive", "index.json in the archive is not an index");
}

std::vector<std::string> names_in(const Index& index) {
  std::vector<std::string> out;
  for (const IndexEntry& entry : index.entries) {
    if (!entry.name.empty() && std::ranges::count(out, entry.name) == 0) out.push_back(entry.name);
  }
  return out;
}

std::unexpected<Error> several(const std::vector<std::string>& names) {
  return bad_field("pick", fmt::format("the archive holds several images; say which one: {}",
                                       fmt::join(names, ", ")));
}

std::unexpected<Error> not_there(const std::string& pick, const std::vector<std::string>& names) {
  return failure(
      Errc::NotFound,
      fmt::format("the archive has no image '{}'; it has {}", pick,
                  names.empty() ? "none with a name" : fmt::format("{}", fmt::join(names, ", "))));
}

// The manifest of a layout that was asked for, through indexes inside indexes up to two deep.
Result<Descriptor> pick_manifest(const Opened& opened, Index index, const ImportOptions& options) {
  const std::vector<std::string> names = names_in(index);
  if (!options.pick.empty()) {
    std::erase_if(index.entries, [&](const IndexEntry& one) { return one.name != options.pick; });
    if (index.entries.empty()) return not_there(options.pick, names);
  } else if (names.size() > 1) {
    return several(names);
  }
  for (int depth = 0; depth < 3; ++depth) {
    const IndexEntry entry =
        index.entries.size() == 1 ? index.entries.front() : TRY(choose(index, options.platform));
    const Descriptor& next = entry.descriptor;
    const std::string text = TRY(read_document(opened, next, kManifestBytesMax));
    auto document = TRY(parse_document(text, next.media_type));
    if (std::holds_alternative<Manifest>(document)) return next;
    index = std::get<Index>(std::move(document));
  }
  return failure(Errc::Unsupported, "the archive has indexes inside indexes");
}

Result<PulledImage> import_layout(BlobStore& store, const Opened& opened,
                                  const ImportOptions& options) {
  Index index = TRY(read_layout(opened));
  const Descriptor descriptor = TRY(pick_manifest(opened, std::move(index), options));
  const std::string text = TRY(read_document(opened, descriptor, kManifestBytesMax));
  auto document = TRY(parse_document(text, descriptor.media_type));
  Manifest manifest = std::get<Manifest>(std::move(document));
  const std::string config = TRY(read_document(opened, manifest.config, kConfigBytesMax));
  const ImageParts parts{options.reference, descriptor.digest, descriptor.size, manifest, config,
                         options.platform};
  PulledImage image = TRY(assemble(parts));
  for (const Descriptor& layer : manifest.layers) {
    image.pins.push_back(TRY(copy_blob(store, opened, layer)));
  }
  image.pins.push_back(TRY(copy_blob(store, opened, manifest.config)));
  image.pins.push_back(TRY(copy_blob(store, opened, descriptor)));
  return image;
}

// --- what docker save writes

struct DockerImage {
  std::string config;
  std::vector<std::string> tags;
  std::vector<std::string> layers;
};

Result<std::vector<DockerImage>> read_docker(const Opened& opened) {
  const std::string text = TRY(read_text(opened, "manifest.json", kManifestBytesMax));
  // The reader takes objects; the list becomes one.
  const json::object object =
      TRY(parse_json_object("{\"images\":" + text + "}", kManifestBytesMax + 16, "manifest.json"));
  const JsonReader reader(object, "manifest.json:");
  const json::array* list = TRY(reader.array("images", kArchiveImagesMax));
  if (list == nullptr || list->empty()) return bad_field("archive", "manifest.json is empty");
  std::vector<DockerImage> out;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string place = reader.place(fmt::format("images[{}]", i));
    if (!(*list)[i].is_object()) return bad_document(place, "is not an object");
    const JsonReader entry((*list)[i].get_object(), place);
    DockerImage image;
    image.config = TRY(entry.text("Config", kTarNameBytesMax));
    image.tags = TRY(entry.texts("RepoTags", kArchiveImagesMax, kArchiveImagesMax * 512));
    image.layers = TRY(entry.texts("Layers", kLayersMax, kLayersMax * kTarNameBytesMax));
    out.push_back(std::move(image));
  }
  return out;
}

std::vector<std::string> names_in(const std::vector<DockerImage>& images) {
  std::vector<std::string> out;
  for (const DockerImage& image : images) {
    out.insert(out.end(), image.tags.begin(), image.tags.end());
  }
  return out;
}

Result<DockerImage> pick_docker(std::vector<DockerImage> images, const std::string& pick) {
  const std::vector<std::string> names = names_in(images);
  if (pick.empty()) {
    if (images.size() > 1) return several(names);
    return std::move(images.front());
  }
  for (DockerImage& image : images) {
    if (std::ranges::count(image.tags, pick) > 0) return std::move(image);
  }
  return not_there(pick, names);
}

Result<PulledImage> import_docker(BlobStore& store, const Opened& opened,
                                  const ImportOptions& options) {
  auto images = TRY(read_docker(opened));
  const DockerImage chosen = TRY(pick_docker(std::move(images), options.pick));
  const std::string text = TRY(read_text(opened, chosen.config, kConfigBytesMax));
  const ImageConfig config = TRY(parse_config(text));
  if (config.diff_ids.size() != chosen.layers.size()) {
    return failure(Errc::Protocol, fmt::format("the image has {} layers, and its config names {}",
                                               chosen.layers.size(), config.diff_ids.size()));
  }
  if (config.platform.os != options.platform.os ||
      config.platform.architecture != options.platform.architecture) {
    return failure(Errc::NotFound, fmt::format("the image is for {}, and {} was asked for",
                                               config.platform.str(), options.platform.str()));
  }
  std::vector<StoredLayer> layers;
  for (std::size_t i = 0; i < chosen.layers.size(); ++i) {
    const TarEntry entry = TRY(opened.index.file(chosen.layers[i]));
    StoredLayer layer = TRY(store_layer(store, {opened.part.fd, entry.offset, entry.size}));
    const bool same = config.diff_ids[i].algorithm() == Algorithm::Sha256
                          ? layer.layer.diff_id == config.diff_ids[i]
                          : false;
    if (!same) {
      return failure(Errc::Protocol,
                     fmt::format("layer {} is {}, and by the config it is {}", i + 1,
                                 layer.layer.diff_id.str(), config.diff_ids[i].str()));
    }
    layers.push_back(std::move(layer));
  }
  return store_image(store, options.reference, text, std::move(layers));
}

// --- a root file system

Result<PulledImage> import_root(BlobStore& store, Opened opened, const ImportOptions& options) {
  StoredLayer layer;
  if (opened.unwrapped) {
    layer = TRY(store_plain(store, std::move(*opened.unwrapped)));
  } else {
    layer = TRY(store_layer(store, opened.part));
  }
  ImageConfig config;
  config.platform = options.platform;
  config.diff_ids.push_back(layer.layer.diff_id);
  std::vector<StoredLayer> layers;
  layers.push_back(std::move(layer));
  return store_image(store, options.reference, to_json(config), std::move(layers));
}

Result<ArchiveInfo> inspect_here(BlobStore& store, UniqueFd archive) {
  const Opened opened = TRY(open_archive(store, std::move(archive)));
  ArchiveInfo out;
  out.kind = opened.kind;
  if (opened.kind == ArchiveKind::OciLayout) out.names = names_in(TRY(read_layout(opened)));
  if (opened.kind == ArchiveKind::DockerArchive) out.names = names_in(TRY(read_docker(opened)));
  return out;
}

Result<PulledImage> import_here(BlobStore& store, UniqueFd archive, const ImportOptions& options) {
  Opened opened = TRY(open_archive(store, std::move(archive)));
  switch (opened.kind) {
    case ArchiveKind::OciLayout:
      return import_layout(store, opened, options);
    case ArchiveKind::DockerArchive:
      return import_docker(store, opened, options);
    case ArchiveKind::RootFs:
      break;
  }
  return import_root(store, std::move(opened), options);
}

}  // namespace

awaitable<Result<ArchiveInfo>> inspect_archive(BlobStore& store, UniqueFd archive) {
  auto work = [&store, archive = std::move(archive)]() mutable {
    return inspect_here(store, std::move(archive));
  };
  co_return co_await on_worker(store.core().pool, std::move(work));
}

awaitable<Result<PulledImage>> import_archive(BlobStore& store, UniqueFd archive,
                                              ImportOptions options) {
  auto work = [&store, archive = std::move(archive), options]() mutable {
    return import_here(store, std::move(archive), options);
  };
  co_return co_await on_worker(store.core().pool, std::move(work));
}

}  // namespace caisson::image
