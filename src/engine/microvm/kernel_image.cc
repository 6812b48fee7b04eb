#include "engine/microvm/kernel_image.h"

#include <fmt/format.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>

#include "engine/microvm/lz4.h"

namespace caisson::engine::microvm {
namespace {

using Bytes = std::vector<std::byte>;
using View = std::span<const std::byte>;

constexpr std::size_t kFirstOutput = 8UL << 20U;
constexpr std::uint64_t kXzMemoryMax = 256UL << 20U;

constexpr std::size_t kSetupSectorsAt = 0x1f1;
constexpr std::size_t kBootMagicAt = 0x202;
constexpr std::size_t kBootVersionAt = 0x206;
constexpr std::size_t kPayloadAt = 0x248;
constexpr std::size_t kSectorBytes = 512;
constexpr unsigned kBootVersionMin = 0x208;

template <class T>
T number_at(View bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

bool starts_with(View bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

// Twice the room for what a decoder gives, up to the limit.
Result<void> grow(Bytes& out, std::size_t used, std::size_t bytes_max) {
  if (used < out.size()) return {};
  if (out.size() >= bytes_max)
    return failure(Errc::TooLarge, fmt::format("it unpacks to more than {} bytes", bytes_max));
  out.resize(std::min(bytes_max, std::max(kFirstOutput, out.size() * 2)));
  return {};
}

Result<Bytes> from_gzip(View packed, std::size_t bytes_max) {
  z_stream stream{};
  if (::inflateInit2(&stream, MAX_WBITS + 16) != Z_OK)
    return failure(Errc::Exhausted, "gzip: no memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, ::inflateEnd);
  Bytes out;
  std::size_t used = 0;
  // zlib does not change its input, though its type does not say so.
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  for (;;) {
    TRY(grow(out, used, bytes_max));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + used);
    stream.avail_out = static_cast<uInt>(out.size() - used);
    const int done = ::inflate(&stream, Z_NO_FLUSH);
    used = out.size() - stream.avail_out;
    if (done == Z_STREAM_END) break;
    if (done != Z_OK) return failure(Errc::InvalidArgument, "gzip: it is damaged");
  }
  out.resize(used);
  return out;
}

Result<Bytes> from_xz(View packed, std::size_t bytes_max) {
  lzma_stream stream = LZMA_STREAM_INIT;
  if (::lzma_stream_decoder(&stream, kXzMemoryMax, 0) != LZMA_OK)
    return failure(Errc::Exhausted, "xz: no memory");
  const std::unique_ptr<lzma_stream, void (*)(lzma_stream*)> end(&stream, ::lzma_end);
  Bytes out;
  std::size_t used = 0;
  stream.next_in = reinterpret_cast<const std::uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  for (;;) {
    TRY(grow(out, used, bytes_max));
    stream.next_out = reinterpret_cast<std::uint8_t*>(out.data() + used);
    stream.avail_out = out.size() - used;
    const lzma_ret done = ::lzma_code(&stream, LZMA_RUN);
    used = out.size() - stream.avail_out;
    if (done == LZMA_STREAM_END) break;
    if (done != LZMA_OK) return failure(Errc::InvalidArgument, "xz: it is damaged");
  }
  out.resize(used);
  return out;
}

Result<Bytes> from_zstd(View packed, std::size_t bytes_max) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(::ZSTD_createDStream(),
                                                                             ::ZSTD_freeDStream);
  if (!stream) return failure(Errc::Exhausted, "zstd: no memory");
  Bytes out;
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  ZSTD_outBuffer made{nullptr, 0, 0};
  for (;;) {
    TRY(grow(out, made.pos, bytes_max));
    made.dst = out.data();
    made.size = out.size();
    const std::size_t before = in.pos;
    const std::size_t had = made.pos;
    const std::size_t left = ::ZSTD_decompressStream(stream.get(), &made, &in);
    if (left == 0) break;
    if (::ZSTD_isError(left) != 0U || (in.pos == before && made.pos == had && made.pos < made.size))
      return failure(Errc::InvalidArgument, "zstd: it is damaged");
  }
  out.resize(made.pos);
  return out;
}

}  // namespace

Packing packing_of(View bytes) noexcept {
  using namespace std::string_view_literals;
  if (starts_with(bytes,
                  "\x7f"
                  "ELF"sv))
    return Packing::None;
  if (starts_with(bytes, "\x1f\x8b"sv)) return Packing::Gzip;
  if (starts_with(bytes,
                  "\xfd"
                  "7zXZ\0"sv))
    return Packing::Xz;
  if (starts_with(bytes, "\x28\xb5\x2f\xfd"sv)) return Packing::Zstd;
  if (starts_with(bytes, "\x02\x21\x4c\x18"sv)) return Packing::Lz4;
  return Packing::Unknown;
}

std::string_view to_string(Packing packing) noexcept {
  switch (packing) {
    case Packing::None:
      return "not packed";
    case Packing::Gzip:
      return "gzip";
    case Packing::Xz:
      return "xz";
    case Packing::Zstd:
      return "zstd";
    case Packing::Lz4:
      return "lz4";
    case Packing::Unknown:
      return "unknown";
  }
  return "unknown";
}

Result<Bytes> unpack(View packed, std::size_t bytes_max) {
  switch (packing_of(packed)) {
    case Packing::None:
      if (packed.size() > bytes_max)
        return failure(Errc::TooLarge, fmt::format("it has more than {} bytes", bytes_max));
      return Bytes(packed.begin(), packed.end());
    case Packing::Gzip:
      return from_gzip(packed, bytes_max);
    case Packing::Xz:
      return from_xz(packed, bytes_max);
    case Packing::Zstd:
      return from_zstd(packed, bytes_max);
    case Packing::Lz4:
      return from_lz4(packed, bytes_max);
    case Packing::Unknown:
      break;
  }
  return failure(Errc::Unsupported, "it is packed in a way that is not known here");
}

Result<Bytes> extract_kernel(View image) {
  if (packing_of(image) == Packing::None) return unpack(image, kKernelBytesMax);
  if (image.size() < kPayloadAt + 8 || !starts_with(image.subspan(kBootMagicAt), "HdrS"))
    return failure(Errc::InvalidArgument, "it is no bzImage: the boot header is missing");
  if (number_at<std::uint16_t>(image, kBootVersionAt) < kBootVersionMin)
    return failure(Errc::Unsupported, "the kernel's boot protocol is older than 2.08");
  const std::size_t sectors = std::to_integer<std::size_t>(image[kSetupSectorsAt]) + 1;
  const std::size_t begin = sectors * kSectorBytes + number_at<std::uint32_t>(image, kPayloadAt);
  const std::size_t size = number_at<std::uint32_t>(image, kPayloadAt + 4);
  if (begin > image.size() || size > image.size() - begin)
    return failure(Errc::InvalidArgument, "the kernel's payload lies outside of its file");
  Bytes kernel = TRY(unpack(image.subspan(begin, size), kKernelBytesMax));
  if (packing_of(kernel) != Packing::None)
    return failure(Errc::InvalidArgument, "the kernel's payload is no ELF file");
  return kernel;
}

}  // namespace caisson::engine::microvm
