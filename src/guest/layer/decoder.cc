#include "guest/layer/decoder.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace caisson::layer {
namespace {

class PlainDecoder final : public Decoder {
 public:
  explicit PlainDecoder(InputFile& input) : input_(input) {}
  Result<std::size_t> fill(std::span<std::byte> out) override {
    const std::span<const std::byte> ahead = TRY(input_.ahead());
    const std::size_t size = std::min(ahead.size(), out.size());
    std::copy_n(ahead.begin(), size, out.begin());
    input_.use(size);
    return size;
  }

 private:
  InputFile& input_;
};

class GzipDecoder final : public Decoder {
 public:
  static constexpr int kGzipWindow = 15 + 16;  // the largest window, and gzip's header only

  explicit GzipDecoder(InputFile& input) : input_(input) {}
  ~GzipDecoder() override {
    if (open_) ::inflateEnd(&stream_);
  }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  Result<std::size_t> fill(std::span<std::byte> out) override {
    if (!open_) {
      if (::inflateInit2(&stream_, kGzipWindow) != Z_OK) {
        return failure(Errc::Exhausted, "no memory to read gzip");
      }
      open_ = true;
    }
    for (;;) {
      const std::span<const std::byte> ahead = TRY(input_.ahead());
      if (ahead.empty()) {
        if (!between_) return failure(Errc::InvalidArgument, "the gzip archive ends too early");
        return 0;
      }
      // A file may hold several members, one behind the other.
      if (between_ && ::inflateReset(&stream_) != Z_OK) {
        return failure(Errc::Internal, "gzip cannot begin again");
      }
      between_ = false;
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(ahead.data()));
      stream_.avail_in = static_cast<uInt>(ahead.size());
      stream_.next_out = reinterpret_cast<Bytef*>(out.data());
      stream_.avail_out = static_cast<uInt>(out.size());
      const int status = ::inflate(&stream_, Z_NO_FLUSH);
      input_.use(ahead.size() - stream_.avail_in);
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
        return failure(Errc::InvalidArgument, "the archive is not good gzip");
      }
      between_ = status == Z_STREAM_END;
      const std::size_t made = out.size() - stream_.avail_out;
      if (made != 0) return made;
    }
  }

 private:
  InputFile& input_;
  z_stream stream_{};
  bool open_ = false;
  bool between_ = false;  // a member has ended, and the next has not begun
};

class ZstdDecoder final : public Decoder {
 public:
  explicit ZstdDecoder(InputFile& input) : input_(input) {}

  Result<std::size_t> fill(std::span<std::byte> out) override {
    if (!stream_) {
      stream_.reset(::ZSTD_createDStream());
      const bool ready =
          stream_ && ::ZSTD_isError(::ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax,
                                                             kZstdWindowLogMax)) == 0;
      if (!ready) return failure(Errc::Exhausted, "no memory to read zstd");
    }
    for (;;) {
      const std::span<const std::byte> ahead = TRY(input_.ahead());
      // Without input there may still be output inside.
      if (ahead.empty() && between_) return 0;
      ZSTD_inBuffer in{ahead.data(), ahead.size(), 0};
      ZSTD_outBuffer to{out.data(), out.size(), 0};
      const std::size_t status = ::ZSTD_decompressStream(stream_.get(), &to, &in);
      if (::ZSTD_isError(status) != 0) {
        return failure(Errc::InvalidArgument,
                       std::string("the archive is not good zstd: ") + ::ZSTD_getErrorName(status));
      }
      input_.use(in.pos);
      between_ = status == 0;
      if (to.pos != 0) return to.pos;
      if (ahead.empty() && !between_) {
        return failure(Errc::InvalidArgument, "the zstd archive ends too early");
      }
    }
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const noexcept { ::ZSTD_freeDStream(stream); }
  };
  InputFile& input_;
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  bool between_ = false;  // at the end of a frame
};

bool begins_with(std::span<const std::byte> bytes, std::span<const unsigned char> magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

// A frame to be skipped may stand before the first real one: 0x184D2A50 to 0x184D2A5F.
bool is_skippable(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && (bytes[0] & std::byte{0xf0}) == std::byte{0x50} &&
         bytes[1] == std::byte{0x2a} && bytes[2] == std::byte{0x4d} && bytes[3] == std::byte{0x18};
}

}  // namespace

Result<std::span<const std::byte>> InputFile::ahead() {
  if (at_ == end_) {
    ssize_t got = 0;
    do {
      got = ::read(fd_, buffer_.data(), buffer_.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) return sys_failure("read the archive", errno);
    at_ = 0;
    end_ = static_cast<std::size_t>(got);
  }
  return std::span<const std::byte>(buffer_).subspan(at_, end_ - at_);
}

Result<std::unique_ptr<Decoder>> make_decoder(InputFile& input) {
  constexpr unsigned char kGzip[] = {0x1f, 0x8b};
  constexpr unsigned char kZstd[] = {0x28, 0xb5, 0x2f, 0xfd};
  const std::span<const std::byte> ahead = TRY(input.ahead());
  std::unique_ptr<Decoder> decoder;
  if (begins_with(ahead, kGzip)) {
    decoder = std::make_unique<GzipDecoder>(input);
  } else if (begins_with(ahead, kZstd) || is_skippable(ahead)) {
    decoder = std::make_unique<ZstdDecoder>(input);
  } else {
    decoder = std::make_unique<PlainDecoder>(input);
  }
  return decoder;
}

}  // namespace caisson::layer
