#include "guest/layer/decoder.h"

#include <bzlib.h>
#include <lzma.h>
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

// Behind the last member of gzip and bzip2 there may be zeros, as tapes and some writers pad them.
// Passes over them; false where something else follows.
Result<bool> only_zeros_follow(InputFile& input) {
  for (;;) {
    const std::span<const std::byte> ahead = TRY(input.ahead());
    if (ahead.empty()) return true;
    const auto other = std::ranges::find_if(ahead, [](std::byte b) { return b != std::byte{0}; });
    input.use(static_cast<std::size_t>(other - ahead.begin()));
    if (other != ahead.end()) return false;
  }
}

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
      if (between_ && TRY(only_zeros_follow(input_))) return 0;
      const std::span<const std::byte> ahead = TRY(input_.ahead());
      if (ahead.empty()) return failure(Errc::InvalidArgument, "the gzip archive ends too early");
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

class Bzip2Decoder final : public Decoder {
 public:
  explicit Bzip2Decoder(InputFile& input) : input_(input) {}
  ~Bzip2Decoder() override { close(); }
  Bzip2Decoder(const Bzip2Decoder&) = delete;
  Bzip2Decoder& operator=(const Bzip2Decoder&) = delete;

  Result<std::size_t> fill(std::span<std::byte> out) override {
    for (;;) {
      if (between_ && TRY(only_zeros_follow(input_))) return 0;
      const std::span<const std::byte> ahead = TRY(input_.ahead());
      if (ahead.empty()) return failure(Errc::InvalidArgument, "the bzip2 archive ends too early");
      // A file may hold several streams, one behind the other.
      if (!open_) TRY(open());
      between_ = false;
      stream_.next_in = reinterpret_cast<char*>(const_cast<std::byte*>(ahead.data()));
      stream_.avail_in = static_cast<unsigned>(ahead.size());
      stream_.next_out = reinterpret_cast<char*>(out.data());
      stream_.avail_out = static_cast<unsigned>(out.size());
      const int status = ::BZ2_bzDecompress(&stream_);
      input_.use(ahead.size() - stream_.avail_in);
      const std::size_t made = out.size() - stream_.avail_out;
      if (status == BZ_MEM_ERROR) return failure(Errc::Exhausted, "no memory to read bzip2");
      if (status != BZ_OK && status != BZ_STREAM_END) {
        return failure(Errc::InvalidArgument, "the archive is not good bzip2");
      }
      between_ = status == BZ_STREAM_END;
      if (between_) close();
      if (made != 0) return made;
    }
  }

 private:
  Result<void> open() {
    stream_ = bz_stream{};
    if (::BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) {
      return failure(Errc::Exhausted, "no memory to read bzip2");
    }
    open_ = true;
    return {};
  }
  void close() noexcept {
    if (open_) ::BZ2_bzDecompressEnd(&stream_);
    open_ = false;
  }

  InputFile& input_;
  bz_stream stream_{};
  bool open_ = false;
  bool between_ = false;  // a stream has ended, and the next has not begun
};

class XzDecoder final : public Decoder {
 public:
  explicit XzDecoder(InputFile& input) : input_(input) {}
  ~XzDecoder() override { ::lzma_end(&stream_); }
  XzDecoder(const XzDecoder&) = delete;
  XzDecoder& operator=(const XzDecoder&) = delete;

  Result<std::size_t> fill(std::span<std::byte> out) override {
    if (!open_) {
      if (::lzma_stream_decoder(&stream_, kXzMemoryMax, LZMA_CONCATENATED) != LZMA_OK) {
        return failure(Errc::Exhausted, "no memory to read xz");
      }
      open_ = true;
    }
    while (!ended_) {
      const std::span<const std::byte> ahead = TRY(input_.ahead());
      stream_.next_in = reinterpret_cast<const std::uint8_t*>(ahead.data());
      stream_.avail_in = ahead.size();
      stream_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
      stream_.avail_out = out.size();
      const lzma_ret status = ::lzma_code(&stream_, ahead.empty() ? LZMA_FINISH : LZMA_RUN);
      input_.use(ahead.size() - stream_.avail_in);
      ended_ = status == LZMA_STREAM_END;
      // Without input and without a step forward twice: nothing more can come of it.
      if (status != LZMA_OK && !ended_) return refused(status);
      const std::size_t made = out.size() - stream_.avail_out;
      if (made != 0) return made;
    }
    return 0;
  }

 private:
  static std::unexpected<Error> refused(lzma_ret status) {
    switch (status) {
      case LZMA_BUF_ERROR:
        return failure(Errc::InvalidArgument, "the xz archive ends too early");
      case LZMA_MEMLIMIT_ERROR:
        return failure(Errc::TooLarge, "the xz archive needs more than " +
                                           std::to_string(kXzMemoryMax) + " bytes to be read");
      case LZMA_MEM_ERROR:
        return failure(Errc::Exhausted, "no memory to read xz");
      default:
        return failure(Errc::InvalidArgument, "the archive is not good xz");
    }
  }

  InputFile& input_;
  lzma_stream stream_{};
  bool open_ = false;
  bool ended_ = false;
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

// "BZh", a digit, and the first block's mark or the end's: the first three alone may be a name.
bool is_bzip2(std::span<const std::byte> bytes) {
  constexpr unsigned char kBegin[] = {'B', 'Z', 'h'};
  constexpr unsigned char kBlock[] = {0x31, 0x41, 0x59, 0x26, 0x53, 0x59};
  constexpr unsigned char kEnd[] = {0x17, 0x72, 0x45, 0x38, 0x50, 0x90};
  constexpr std::size_t kMark = 4;
  return begins_with(bytes, kBegin) && bytes.size() >= kMark + sizeof(kBlock) &&
         bytes[3] >= std::byte{'1'} && bytes[3] <= std::byte{'9'} &&
         (begins_with(bytes.subspan(kMark), kBlock) || begins_with(bytes.subspan(kMark), kEnd));
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

Result<std::unique_ptr<Decoder>> make_decoder(InputFile& input, Origin origin) {
  constexpr unsigned char kGzip[] = {0x1f, 0x8b};
  constexpr unsigned char kZstd[] = {0x28, 0xb5, 0x2f, 0xfd};
  constexpr unsigned char kXz[] = {0xfd, '7', 'z', 'X', 'Z', 0x00};
  const std::span<const std::byte> ahead = TRY(input.ahead());
  std::unique_ptr<Decoder> decoder;
  if (begins_with(ahead, kGzip)) {
    decoder = std::make_unique<GzipDecoder>(input);
  } else if (begins_with(ahead, kZstd) || is_skippable(ahead)) {
    decoder = std::make_unique<ZstdDecoder>(input);
  } else if (origin == Origin::Anybody && is_bzip2(ahead)) {
    decoder = std::make_unique<Bzip2Decoder>(input);
  } else if (origin == Origin::Anybody && begins_with(ahead, kXz)) {
    decoder = std::make_unique<XzDecoder>(input);
  } else {
    decoder = std::make_unique<PlainDecoder>(input);
  }
  return decoder;
}

}  // namespace caisson::layer
