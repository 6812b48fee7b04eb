// http/chunk_decoder.h — the chunked coding, strictly: what one reader takes for the end of a chunk
// and another does not is how requests are smuggled. Used for both directions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace caisson::http {

// Extensions and trailers carry no bytes of the body, so they have small budgets of their own.
inline constexpr std::size_t kChunkLineBytesMax = 256;         // one size line
inline constexpr std::size_t kChunkExtensionBytesMax = 16384;  // all extensions of one body
inline constexpr std::size_t kTrailerBytesMax = 8192;          // dropped, never delivered

class ChunkDecoder {
 public:
  struct Step {
    std::size_t consumed = 0;
    std::size_t produced = 0;
    bool done = false;
  };
  // Stops at the end of either span, or behind the body.
  [[nodiscard]] Result<Step> decode(std::string_view in, std::span<std::byte> out);
  [[nodiscard]] bool done() const noexcept { return state_ == State::Done; }

 private:
  enum class State : std::uint8_t {
    Size,
    Extension,
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    Trailer,
    TrailerLf,
    LastLf,
    Done,
  };
  [[nodiscard]] Result<void> take(char c);
  [[nodiscard]] Result<void> take_size(char c);
  [[nodiscard]] Result<void> take_extension(char c);
  [[nodiscard]] Result<void> take_trailer(char c);

  State state_ = State::Size;
  std::uint64_t left_ = 0;
  std::size_t digits_ = 0;
  std::size_t line_ = 0;
  std::size_t extensions_ = 0;
  std::size_t trailer_ = 0;
};

}  // namespace caisson::http
