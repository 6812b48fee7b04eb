// doors/mcp/output.h — text that a model reads: valid UTF-8 of bounded size, the head and the tail
// of what is longer, and between them how much is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace caisson::mcp {

inline constexpr std::size_t kOutputBytesMax = 64UL * 1024;  // of one stream, as it is shown
// Asked of control for that: enough of both ends, wherever it cuts.
inline constexpr std::uint32_t kCollectBytes = 4 * kOutputBytesMax;

struct Shown {
  std::string text;
  std::uint64_t omitted = 0;  // bytes
};

// `lost` bytes are missing somewhere in the middle already.
[[nodiscard]] Shown show_output(std::string_view bytes, std::uint64_t lost,
                                std::size_t bytes_max = kOutputBytesMax);

}  // namespace caisson::mcp
