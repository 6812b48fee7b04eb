#include "image/decompress.h"

#include <fmt/core.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "image/blob_store.h"

namespace caisson::image {

namespace {

std::unexpected<Error> bad(std::string_view why) {
  return bad_field("archive", fmt::format("the compressed data cannot be read: {}", why));
}

class PartReader {
 public:
  explicit PartReader(const FilePart& part) : part_(part), buffer_(kCopyBytes) {}

  // Empty at the end of the part. A file that is shorter than the part is an error.
  Result<std::span<const std::byte>> next() {
    while (done_ < part_.size) {
      const auto want =
          static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), part_.size - done_));
      const ssize_t got =
          ::pread(part_.fd, buffer_.data(), want, static_cast<off_t>(part_.offset + done_));
      const int sys_errno = errno;
      if (got < 0 && sys_errno == EINTR) continue;
      if (got < 0) return sys_failure("read the archive", sys_errno);
      if (got == 0) return bad("the file ended early");
      done_ += static_cast<std::uint64_t>(got);
      return std::span<const std::byte>(buffer_).first(static_cast<std::size_t>(got));
    }
    return std::span<const std::byte>();
  }
  [[nodiscard]] std::uint64_t done() const noexcept { return done_; }

 private:
  FilePart part_;
  std::vector<std::byte> buffer_;
  std::uint64_t done_ = 0;
};

// Counts what comes out against both limits.
class Meter {
 public:
  Meter(std::uint64_t bytes_max, const ByteSink& sink) : bytes_max_(bytes_max), sink_(sink) {}

  Result<void> put(std::span<const std::byte> bytes, std::uint64_t read) {
    out_ += bytes.size();
    if (out_ > bytes_max_) {
      return failure(Errc::TooLarge, fmt::format("more than {} bytes when unpacked", bytes_max_));
    }
    if (out_ > kRatioFreeBytes && out_ / kRatioMax > read) {
      return failure(Errc::TooLarge,
                     fmt::format("it unpacks to more than {} times its size", kRatioMax));
    }
    return sink_(bytes);
  }

 private:
  std::uint64_t bytes_max_;
  const ByteSink& sink_;
  std::uint64_t out_ = 0;
};

Result<void> copy_plain(PartReader& reader, Meter& meter) {
  for (;;) {
    const auto piece = TRY(reader.next());
    if (piece.empty()) return {};
    TRY(meter.put(piece, ~std::uint64_t{0} / kRatioMax));
  }
}

struct Inflate {
  z_stream stream{};
  Inflate() = default;
  Inflate(const Inflate&) = delete;
  Inflate& operator=(const Inflate&) = delete;
  ~Inflate() { (void)::inflateEnd(&stream); }
};

Result<void> inflate_piece(Inflate& inflate, std::span<const std::byte> piece,
                           std::vector<std::byte>& out, PartReader& reader, Meter& meter,
                           bool& between) {
  z_stream& stream = inflate.stream;
  // zlib does not write through next_in; its type is older than const.
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(piece.data()));
  stream.avail_in = static_cast<uInt>(piece.size());
  while (stream.avail_in > 0 || stream.avail_out == 0) {
    if (between && stream.avail_in > 0) {
      // One gzip member behind another.
      if (::inflateReset(&stream) != Z_OK) return bad("zlib cannot go on");
      between = false;
    }
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      return bad(stream.msg != nullptr ? stream.msg : "not gzip");
    }
    TRY(meter.put(std::span(out).first(out.size() - stream.avail_out), reader.done()));
    between = status == Z_STREAM_END;
    if (between && stream.avail_in == 0) break;
    if (status == Z_BUF_ERROR) break;
  }
  return {};
}

Result<void> gunzip(PartReader& reader, Meter& meter) {
  Inflate inflate;
  if (::inflateInit2(&inflate.stream, 15 + 16) != Z_OK) return bad("zlib cannot begin");
  std::vector<std::byte> out(kCopyBytes);
  bool between = false;
  for (;;) {
    const auto piece = TRY(reader.next());
    if (piece.empty()) break;
    inflate.stream.avail_out = 1;
    TRY(inflate_piece(inflate, piece, out, reader, meter, between));
  }
  if (!between) return bad("it ends in the middle");
  return {};
}

Result<void> unzstd(PartReader& reader, Meter& meter) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(::ZSTD_createDCtx(),
                                                                        &::ZSTD_freeDCtx);
  if (!context) return failure(Errc::Exhausted, "no memory for zstd");
  (void)::ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kZstdWindowLogMax);
  std::vector<std::byte> out(kCopyBytes);
  std::size_t wants = 1;  // 0 between two frames
  for (;;) {
    const auto piece = TRY(reader.next());
    if (piece.empty()) break;
    ZSTD_inBuffer in{piece.data(), piece.size(), 0};
    bool full = true;
    while (in.pos < in.size || full) {
      ZSTD_outBuffer made{out.data(), out.size(), 0};
      wants = ::ZSTD_decompressStream(context.get(), &made, &in);
      if (::ZSTD_isError(wants) != 0) return bad(::ZSTD_getErrorName(wants));
      TRY(meter.put(std::span(out).first(made.pos), reader.done()));
      full = made.pos == made.size;
      if (wants == 0 && in.pos == in.size) break;
    }
  }
  if (wants != 0) return bad("it ends in the middle");
  return {};
}

}  // namespace

Result<Packing> packing_of(const FilePart& part) {
  std::array<unsigned char, 4> head{};
  const std::size_t want = static_cast<std::size_t>(std::min<std::uint64_t>(4, part.size));
  const ssize_t got = ::pread(part.fd, head.data(), want, static_cast<off_t>(part.offset));
  if (got < 0) return sys_failure("read the archive", errno);
  if (got >= 2 && head[0] == 0x1f && head[1] == 0x8b) return Packing::Gzip;
  if (got == 4 && head[0] == 0x28 && head[1] == 0xb5 && head[2] == 0x2f && head[3] == 0xfd) {
    return Packing::Zstd;
  }
  return Packing::Plain;
}

Result<void> unwrap(const FilePart& part, Packing packing, std::uint64_t bytes_max,
                    const ByteSink& sink) {
  PartReader reader(part);
  Meter meter(bytes_max, sink);
  switch (packing) {
    case Packing::Gzip:
      return gunzip(reader, meter);
    case Packing::Zstd:
      return unzstd(reader, meter);
    case Packing::Plain:
      break;
  }
  return copy_plain(reader, meter);
}

}  // namespace caisson::image
