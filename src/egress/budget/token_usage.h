// egress/budget/token_usage.h — what one call to a language model used, and the sums that never
// wrap: an account must not come below its limit again because a number was too large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace caisson::egress {

enum class Provider : std::uint8_t { OpenAi, Anthropic };

// Where nothing better is known, so many bytes are one token, rounded up. English text has about
// four; for other scripts it is too few bytes, so it counts for calls whose usage cannot be read
// and never instead of a usage that was.
inline constexpr std::int64_t kBytesPerToken = 4;
// What a picture or a document inside a request is taken for, whatever its size in base64.
inline constexpr std::int64_t kMediaTokens = 1600;

struct TokenUsage {
  std::int64_t input = 0;         // neither read from a cache nor written to one
  std::int64_t cached_input = 0;  // read from the provider's cache
  std::int64_t cache_write = 0;   // written to it
  std::int64_t output = 0;        // with what the model thought to itself

  [[nodiscard]] std::int64_t total() const noexcept;
  friend bool operator==(const TokenUsage&, const TokenUsage&) = default;
};

[[nodiscard]] constexpr std::int64_t sum_capped(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

[[nodiscard]] constexpr std::int64_t product_capped(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max()
                                                : product;
}

[[nodiscard]] constexpr std::int64_t tokens_of_bytes(std::uint64_t bytes) noexcept {
  const std::uint64_t size = kBytesPerToken;
  return static_cast<std::int64_t>(bytes / size + (bytes % size == 0 ? 0 : 1));
}

inline std::int64_t TokenUsage::total() const noexcept {
  return sum_capped(sum_capped(input, cached_input), sum_capped(cache_write, output));
}

}  // namespace caisson::egress
