// doors/rest/range.h — conditional and partial downloads: Range, ETag and names of files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::rest {

struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  // included

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

enum class RangeKind : std::uint8_t { Whole, Part, Impossible };
struct RangeChoice {
  RangeKind kind = RangeKind::Whole;
  ByteRange range;
};
// What to send of `size` bytes. A field that is malformed or asks for several ranges counts as
// none, as HTTP allows; one that lies behind the end is impossible.
[[nodiscard]] RangeChoice choose_range(std::string_view field, std::uint64_t size);

// Does a list of ETags, or "*", hold this one? Weak ones compare like strong ones.
[[nodiscard]] bool etag_listed(std::string_view list, std::string_view etag);

// A type for the last extension that no browser runs as a page; application/octet-stream otherwise.
[[nodiscard]] std::string_view safe_type(std::string_view path);
// attachment; filename*=UTF-8''…
[[nodiscard]] std::string disposition(std::string_view path, std::string_view suffix = {});

}  // namespace caisson::rest
