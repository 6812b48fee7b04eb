#include "image/manifest.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "image/json.h"

namespace caisson::image {

namespace json = boost::json;

namespace {

constexpr std::size_t kMediaTypeBytesMax = 255;
constexpr std::size_t kPlatformWordBytesMax = 64;
constexpr std::size_t kNameBytesMax = 512;
constexpr std::string_view kSchema1Prefix = "application/vnd.docker.distribution.manifest.v1";
constexpr std::string_view kDockerLayerPrefix = "application/vnd.docker.image.rootfs.diff.tar";
constexpr std::string_view kOciLayerPrefix = "application/vnd.oci.image.layer.v1.tar";

bool is_index_type(std::string_view type) {
  return type == kOciIndexType || type == kDockerListType;
}
bool is_manifest_type(std::string_view type) {
  return type == kOciManifestType || type == kDockerManifestType;
}

// "application/x; charset=utf-8" without what follows the type.
std::string_view bare_type(std::string_view header) {
  header = header.substr(0, header.find(';'));
  while (!header.empty() && (header.back() == ' ' || header.back() == '\t')) {
    header.remove_suffix(1);
  }
  return header;
}

Result<Descriptor> read_descriptor(const json::object& object, std::string_view place,
                                   std::uint64_t size_max) {
  const JsonReader reader(object, std::string(place));
  Descriptor out;
  out.media_type = TRY(reader.text("mediaType", kMediaTypeBytesMax));
  if (out.media_type.empty()) return bad_document(reader.place("mediaType"), "is missing");
  const std::string digest = TRY(reader.text("digest", 256));
  auto parsed = Digest::parse(digest);
  if (!parsed) return bad_document(reader.place("digest"), "is bad: " + parsed.error().message);
  out.digest = std::move(*parsed);
  out.size = TRY(reader.number("size", size_max));
  // Content inside a descriptor would be a second place for the same bytes.
  if (reader.has("urls")) {
    const json::array* urls = TRY(reader.array("urls", 64));
    if (urls != nullptr && !urls->empty()) {
      return failure(Errc::Unsupported,
                     fmt::format("{} points to other hosts; layers that are not in the registry "
                                 "are not supported",
                                 reader.place("urls")));
    }
  }
  return out;
}

Result<std::optional<Platform>> read_platform(const JsonReader& entry) {
  const json::object* object = TRY(entry.object("platform"));
  if (object == nullptr) return std::nullopt;
  const JsonReader reader(*object, entry.place("platform"));
  Platform out;
  out.os = TRY(reader.text("os", kPlatformWordBytesMax));
  out.architecture = TRY(reader.text("architecture", kPlatformWordBytesMax));
  out.variant = TRY(reader.text("variant", kPlatformWordBytesMax));
  return out;
}

Result<std::string> read_name(const JsonReader& entry) {
  const json::object* object = TRY(entry.object("annotations"));
  if (object == nullptr) return std::string();
  const JsonReader reader(*object, entry.place("annotations"));
  std::string full = TRY(reader.text("io.containerd.image.name", kNameBytesMax));
  if (!full.empty()) return full;
  return reader.text("org.opencontainers.image.ref.name", kNameBytesMax);
}

Result<Document> read_index(const JsonReader& reader, std::string media_type) {
  Index out;
  out.media_type = std::move(media_type);
  const json::array* list = TRY(reader.array("manifests", kIndexEntriesMax));
  if (list == nullptr) return bad_document(reader.place("manifests"), "is missing");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string place = reader.place(fmt::format("manifests[{}]", i));
    if (!(*list)[i].is_object()) return bad_document(place, "is not an object");
    const json::object& object = (*list)[i].get_object();
    const JsonReader entry(object, place);
    IndexEntry next;
    next.descriptor = TRY(read_descriptor(object, place, kManifestBytesMax));
    next.platform = TRY(read_platform(entry));
    next.name = TRY(read_name(entry));
    out.entries.push_back(std::move(next));
  }
  return out;
}

Result<Document> read_manifest(const JsonReader& reader, std::string media_type) {
  Manifest out;
  out.media_type = std::move(media_type);
  const json::object* config = TRY(reader.object("config"));
  if (config == nullptr) return bad_document(reader.place("config"), "is missing");
  out.config = TRY(read_descriptor(*config, reader.place("config"), kConfigBytesMax));
  if (out.config.media_type != kOciConfigType && out.config.media_type != kDockerConfigType) {
    return failure(Errc::Unsupported,
                   fmt::format("this is not the image of a container: its config is '{}'",
                               out.config.media_type));
  }
  const json::array* list = TRY(reader.array("layers", kLayersMax));
  if (list == nullptr) return bad_document(reader.place("layers"), "is missing");
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string place = reader.place(fmt::format("layers[{}]", i));
    if (!(*list)[i].is_object()) return bad_document(place, "is not an object");
    Descriptor layer = TRY(read_descriptor((*list)[i].get_object(), place, kLayerBytesMax));
    (void)TRY_IN(place, packing_of(layer.media_type));
    total += layer.size;
    out.layers.push_back(std::move(layer));
  }
  if (total > kImageBytesMax) {
    return failure(Errc::TooLarge, fmt::format("the layers have {} bytes, and at most {} are taken",
                                               total, kImageBytesMax));
  }
  return out;
}

bool fits(const Platform& have, const Platform& want) {
  return have.os == want.os && have.architecture == want.architecture;
}

// arm64 without a variant means v8, and the other way round.
std::string variant_of(const Platform& platform) {
  if (platform.variant.empty() && platform.architecture == "arm64") return "v8";
  return platform.variant;
}

}  // namespace

Result<Platform> Platform::parse(std::string_view text) {
  Platform out;
  const auto bad = [&] {
    return bad_field("platform", fmt::format("'{}' is not a platform: want os/architecture or "
                                             "os/architecture/variant, as linux/arm64/v8",
                                             text.substr(0, 64)));
  };
  const std::size_t first = text.find('/');
  if (first == text.npos || text.size() > 3 * kPlatformWordBytesMax) return bad();
  const std::size_t second = text.find('/', first + 1);
  out.os = text.substr(0, first);
  out.architecture = text.substr(first + 1, second == text.npos ? text.npos : second - first - 1);
  if (second != text.npos) out.variant = text.substr(second + 1);
  const auto word = [](std::string_view part) {
    return std::ranges::all_of(part, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    });
  };
  if (out.os.empty() || out.architecture.empty() || !word(out.os) || !word(out.architecture) ||
      !word(out.variant) || (second != text.npos && out.variant.empty())) {
    return bad();
  }
  return out;
}

std::string Platform::str() const {
  return os + "/" + architecture + (variant.empty() ? "" : "/" + variant);
}

Platform host_platform() {
#if defined(__x86_64__)
  return {"linux", "amd64", ""};
#elif defined(__aarch64__)
  return {"linux", "arm64", "v8"};
#else
#error "which architecture is this in an image's index?"
#endif
}

Result<Document> parse_document(std::string_view text, std::string_view header_type) {
  const std::string_view outer = bare_type(header_type);
  const json::object object = TRY(parse_json_object(text, kManifestBytesMax, "the manifest"));
  const JsonReader reader(object, "the manifest:");
  if (outer.starts_with(kSchema1Prefix) || reader.has("fsLayers") || reader.has("signatures")) {
    return failure(Errc::Unsupported,
                   "the image has a manifest of docker's schema 1, which cannot be verified; push "
                   "it again with a current tool");
  }
  if (TRY(reader.number("schemaVersion", 1000)) != 2) {
    return bad_document(reader.place("schemaVersion"), "is not 2");
  }
  const std::string inner = TRY(reader.text("mediaType", kMediaTypeBytesMax));
  const bool has_manifests = object.contains("manifests");
  const bool has_layers = object.contains("layers") || object.contains("config");
  // One text that is an index for one reader and an image for the next (CVE-2021-41190).
  if (has_manifests && has_layers) {
    return bad_document("the manifest", "has both 'manifests' and 'layers'");
  }
  if (!inner.empty() && !outer.empty() && inner != outer) {
    return bad_document("the manifest",
                        fmt::format("says that it is '{}', and came as '{}'", inner, outer));
  }
  std::string type = inner.empty() ? std::string(outer) : inner;
  if (type.empty()) type = has_manifests ? kOciIndexType : kOciManifestType;
  if (is_index_type(type)) {
    if (!has_manifests) return bad_document("the manifest", "is an index without 'manifests'");
    return read_index(reader, std::move(type));
  }
  if (is_manifest_type(type)) {
    if (has_manifests) return bad_document("the manifest", "has 'manifests' and is no index");
    return read_manifest(reader, std::move(type));
  }
  return failure(Errc::Unsupported,
                 fmt::format("the manifest is of the type '{}', which is not that of an image",
                             type.substr(0, kMediaTypeBytesMax)));
}

Result<IndexEntry> choose(const Index& index, const Platform& platform) {
  const IndexEntry* loose = nullptr;
  const IndexEntry* without = nullptr;
  for (const IndexEntry& entry : index.entries) {
    if (!entry.platform) {
      if (without == nullptr) without = &entry;
      continue;
    }
    if (!fits(*entry.platform, platform)) continue;
    if (variant_of(*entry.platform) == variant_of(platform)) return entry;
    // A variant that was asked for is not replaced by another one.
    const bool may = platform.variant.empty() || entry.platform->variant.empty();
    if (loose == nullptr && may) loose = &entry;
  }
  if (loose != nullptr) return *loose;
  if (index.entries.size() == 1 && without != nullptr) return *without;
  std::vector<std::string> there;
  for (const IndexEntry& entry : index.entries) {
    if (entry.platform && there.size() < 16) there.push_back(entry.platform->str());
  }
  return failure(Errc::NotFound,
                 fmt::format("the image has nothing for {}; it has {}", platform.str(),
                             there.empty() ? "no platforms at all"
                                           : fmt::format("{}", fmt::join(there, ", "))));
}

Result<Packing> packing_of(std::string_view media_type) {
  if (media_type.find("nondistributable") != media_type.npos ||
      media_type.find("foreign") != media_type.npos) {
    return failure(Errc::Unsupported,
                   "the image has a layer that its registry does not hold (foreign or "
                   "nondistributable); such images are not supported");
  }
  for (const std::string_view prefix : {kOciLayerPrefix, kDockerLayerPrefix}) {
    if (!media_type.starts_with(prefix)) continue;
    const std::string_view rest = media_type.substr(prefix.size());
    if (rest.empty()) return Packing::Plain;
    if (rest == "+gzip" || rest == ".gzip") return Packing::Gzip;
    if (rest == "+zstd" || rest == ".zstd") return Packing::Zstd;
  }
  return failure(Errc::Unsupported, fmt::format("a layer is of the type '{}'; plain, gzip and zstd "
                                                "tar layers are supported",
                                                media_type.substr(0, kMediaTypeBytesMax)));
}

std::string to_json(const Manifest& manifest) {
  const auto descriptor = [](const Descriptor& one) {
    return json::object{
        {"mediaType", one.media_type}, {"digest", one.digest.str()}, {"size", one.size}};
  };
  json::array layers;
  for (const Descriptor& layer : manifest.layers) layers.push_back(descriptor(layer));
  const json::object out{{"schemaVersion", 2},
                         {"mediaType", manifest.media_type},
                         {"config", descriptor(manifest.config)},
                         {"layers", std::move(layers)}};
  return json::serialize(out);
}

}  // namespace caisson::image
