// doors/console/gzip_test.h — a text compressed as bundle.py does it, and bundles made of such.
#pragma once

#include <zlib.h>

#include <string>
#include <string_view>

namespace caisson::console {

inline std::string gzipped(std::string_view text) {
  std::string copy(text);
  std::string out(compressBound(copy.size()) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(copy.data());
  stream.avail_in = static_cast<uInt>(copy.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace caisson::console
