// doors/console/encoding.h — what a client takes, by its own words, and a file made plain for one
// that does not take gzip.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"

namespace caisson::console {

// Of Accept-Encoding: gzip by its name decides, else '*', else it is not taken.
[[nodiscard]] bool takes_gzip(std::string_view accept_encoding) noexcept;

// Of If-None-Match: is this ETag, with its quotes, among those that the client has?
[[nodiscard]] bool has_etag(std::string_view if_none_match, std::string_view etag) noexcept;

// Piece by piece, so that no client makes the server hold a whole file of his own.
class Inflater {
 public:
  explicit Inflater(std::span<const std::byte> gzip) noexcept;
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // The next bytes into `out`; 0 at the end.
  [[nodiscard]] Result<std::size_t> next(std::span<std::byte> out) noexcept;

 private:
  z_stream stream_{};
  bool ready_ = false;
  bool ended_ = false;
};

}  // namespace caisson::console
