// The archive is written in one pass and one order: folders, the small texts, then each blob once.
#include "image/export.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/on_worker.h"
#include "image/blob_store_core.h"

namespace caisson::image {

namespace json = boost::json;

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kOctalSizeMax = 077777777777ULL;  // 11 digits
constexpr std::size_t kNameFieldBytes = 100;
constexpr std::size_t kStepBytes = 512UL * 1024;

struct Piece {
  std::string name;
  char type = '0';
  std::string text;            // its content, or
  std::optional<Digest> blob;  // where it is
  std::uint64_t size = 0;
};

std::string header_of(const Piece& piece) {
  std::string out(kBlock, '\0');
  const auto put = [&](std::size_t at, std::string_view text) {
    std::memcpy(out.data() + at, text.data(), text.size());
  };
  put(0, std::string_view(piece.name).substr(0, kNameFieldBytes));
  put(100, piece.type == '5' ? "0000755" : "0000644");
  put(108, "0000000");
  put(116, "0000000");
  if (piece.size <= kOctalSizeMax) {
    put(124, fmt::format("{:011o}", piece.size));
  } else {
    out[124] = static_cast<char>(0x80);
    for (unsigned i = 0; i < 8; ++i) {
      out[135 - i] = static_cast<char>(piece.size >> (8 * i) & 0xff);
    }
  }
  put(136, "00000000000");
  put(148, "        ");
  out[156] = piece.type;
  put(257, std::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : out) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum));
  out[154] = '\0';
  return out;
}

std::uint64_t padding(std::uint64_t size) { return (kBlock - size % kBlock) % kBlock; }

// A sha512 name does not fit its field: it stands whole in an extended header before the entry.
std::string extended_header_of(const Piece& piece) {
  if (piece.name.size() <= kNameFieldBytes) return {};
  // The record counts its own length, which has three digits for every name that there is here.
  const std::string record = fmt::format("{} path={}\n", piece.name.size() + 10, piece.name);
  const Piece header{"pax", 'x', "", {}, record.size()};
  return header_of(header) + record + std::string(padding(record.size()), '\0');
}

std::string blob_path(const Digest& digest) {
  return fmt::format("blobs/{}/{}", to_string(digest.algorithm()), digest.hex());
}

std::string layout_index(const PulledImage& image) {
  json::object entry{{"mediaType", image.media_type},
                     {"digest", image.manifest_digest.str()},
                     {"size", image.manifest_size}};
  if (!image.reference.empty() && !image.reference.tag().empty()) {
    const std::string name = image.reference.registry() + "/" + image.reference.repository() + ":" +
                             image.reference.tag();
    entry["annotations"] = json::object{{"io.containerd.image.name", name},
                                        {"org.opencontainers.image.ref.name", name}};
  }
  const json::object index{{"schemaVersion", 2},
                           {"mediaType", std::string(kOciIndexType)},
                           {"manifests", json::array{std::move(entry)}}};
  return json::serialize(index);
}

std::string docker_manifest(const PulledImage& image) {
  json::array tags;
  if (!image.reference.empty() && !image.reference.tag().empty()) {
    tags.emplace_back(image.reference.registry() + "/" + image.reference.repository() + ":" +
                      image.reference.tag());
  }
  json::array layers;
  for (const Layer& layer : image.layers) layers.emplace_back(blob_path(layer.digest));
  const json::object entry{{"Config", blob_path(image.config_digest)},
                           {"RepoTags", std::move(tags)},
                           {"Layers", std::move(layers)}};
  return json::serialize(json::array{entry});
}

std::vector<Piece> pieces_of(const PulledImage& image) {
  std::vector<Piece> out;
  const auto folder = [&](std::string name) { out.push_back({std::move(name), '5', "", {}, 0}); };
  const auto text = [&](std::string name, std::string content) {
    const std::uint64_t size = content.size();
    out.push_back({std::move(name), '0', std::move(content), {}, size});
  };
  text("oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
  text("index.json", layout_index(image));
  text("manifest.json", docker_manifest(image));
  std::set<Digest> seen;
  std::vector<Piece> blobs;
  const auto blob = [&](const Digest& digest, std::uint64_t size) {
    if (seen.insert(digest).second) blobs.push_back({blob_path(digest), '0', "", digest, size});
  };
  blob(image.manifest_digest, image.manifest_size);
  blob(image.config_digest, image.config_size);
  for (const Layer& layer : image.layers) blob(layer.digest, layer.size);
  folder("blobs/");
  for (const Algorithm algorithm : {Algorithm::Sha256, Algorithm::Sha512}) {
    const auto is = [&](const Digest& one) { return one.algorithm() == algorithm; };
    if (std::ranges::any_of(seen, is)) folder(fmt::format("blobs/{}/", to_string(algorithm)));
  }
  std::ranges::move(blobs, std::back_inserter(out));
  return out;
}

Result<std::size_t> read_step(int fd, std::span<std::byte> out, std::uint64_t at) {
  for (;;) {
    const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(at));
    const int sys_errno = errno;
    if (got < 0 && sys_errno == EINTR) continue;
    if (got < 0) return sys_failure("read a blob", sys_errno);
    if (got == 0) return failure(Errc::Internal, "a blob became shorter while it was read");
    return static_cast<std::size_t>(got);
  }
}

awaitable<Result<void>> send_text(const TarSink& sink, std::string text) {
  co_return co_await sink(std::as_bytes(std::span(text)));
}

awaitable<Result<void>> send_blob(BlobStore& store, const TarSink& sink, Digest digest,
                                  std::uint64_t size) {
  auto fd = co_await store.open_verified(digest);
  if (!fd) co_return std::unexpected(fd.error());
  std::vector<std::byte> buffer(kStepBytes);
  for (std::uint64_t at = 0; at < size;) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), size - at));
    const std::span out = std::span(buffer).first(want);
    auto work = [file = fd->get(), out, at] { return read_step(file, out, at); };
    const auto got = co_await on_worker(store.core().pool, std::move(work));
    if (!got) co_return std::unexpected(got.error());
    const auto sent = co_await sink(out.first(*got));
    if (!sent) co_return sent;
    at += *got;
  }
  co_return Result<void>();
}

}  // namespace

Result<std::uint64_t> export_size(const PulledImage& image) {
  std::uint64_t sum = 2 * kBlock;
  for (const Piece& piece : pieces_of(image)) {
    sum += extended_header_of(piece).size() + kBlock + piece.size + padding(piece.size);
  }
  return sum;
}

awaitable<Result<void>> export_image(BlobStore& store, PulledImage image, TarSink sink) {
  const std::vector<Piece> pieces = pieces_of(image);
  for (const Piece& piece : pieces) {
    if (piece.blob && store.size_of(*piece.blob) != piece.size) {
      co_return failure(Errc::NotFound, fmt::format("the blob {} of the image is not in the store",
                                                    piece.blob->str()));
    }
  }
  for (const Piece& piece : pieces) {
    auto sent = co_await send_text(sink, extended_header_of(piece) + header_of(piece) + piece.text);
    if (sent && piece.blob) sent = co_await send_blob(store, sink, *piece.blob, piece.size);
    if (sent && padding(piece.size) > 0) {
      sent = co_await send_text(sink, std::string(padding(piece.size), '\0'));
    }
    if (!sent) co_return sent;
  }
  co_return co_await send_text(sink, std::string(2 * kBlock, '\0'));
}

}  // namespace caisson::image
