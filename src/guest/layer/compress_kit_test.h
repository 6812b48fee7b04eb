// Compressed bytes for tests.
#pragma once

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace caisson::layer {

inline std::string gzip(const std::string& plain) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, plain.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string zstd(const std::string& plain, int window_log = 0) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  if (window_log != 0) {
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  }
  std::string out(ZSTD_compressBound(plain.size()) + 64, '\0');
  // In two pieces: with all of it at once the window would shrink to the content.
  ZSTD_inBuffer in{plain.data(), plain.size() / 2, 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  ZSTD_compressStream2(context, &to, &in, ZSTD_e_flush);
  in.size = plain.size();
  ZSTD_compressStream2(context, &to, &in, ZSTD_e_end);
  ZSTD_freeCCtx(context);
  out.resize(to.pos);
  return out;
}

inline std::string bzip2(const std::string& plain) {
  std::string out(plain.size() + plain.size() / 100 + 600, '\0');
  auto size = static_cast<unsigned>(out.size());
  BZ2_bzBuffToBuffCompress(out.data(), &size, const_cast<char*>(plain.data()),
                           static_cast<unsigned>(plain.size()), 9, 0, 0);
  out.resize(size);
  return out;
}

inline std::string xz(const std::string& plain) {
  std::string out(lzma_stream_buffer_bound(plain.size()), '\0');
  std::size_t size = 0;
  (void)lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, nullptr,
                                reinterpret_cast<const std::uint8_t*>(plain.data()), plain.size(),
                                reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size());
  out.resize(size);
  return out;
}

// The same, but the first block says that it needs a dictionary of 2 GiB.
inline std::string greedy_xz(const std::string& plain) {
  constexpr std::size_t kBlock = 12;  // behind the stream's own header
  constexpr std::uint8_t kTwoGibibytes = 38;
  std::string out = xz(plain);
  auto* block = reinterpret_cast<std::uint8_t*>(out.data()) + kBlock;
  const std::size_t header = (std::size_t{block[0]} + 1) * 4;
  // Sizes may stand before the filter, so it is found by its number and the size of its properties.
  for (std::size_t at = 2; at + 2 < header; ++at) {
    if (block[at] == 0x21 && block[at + 1] == 1) {
      block[at + 2] = kTwoGibibytes;
      break;
    }
  }
  const std::uint32_t sum = lzma_crc32(block, header - 4, 0);
  std::memcpy(block + header - 4, &sum, sizeof(sum));
  return out;
}

}  // namespace caisson::layer
