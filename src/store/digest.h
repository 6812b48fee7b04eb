// store/digest.h — SHA-256 and HMAC-SHA-256 by OpenSSL, as values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace caisson::store {

inline constexpr std::size_t kDigestBytes = 32;
using Digest = std::array<std::uint8_t, kDigestBytes>;

// One context, used again and again: making one costs as much as hashing a row.
class Hasher {
 public:
  Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  [[nodiscard]] Digest sha256(std::string_view bytes);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

[[nodiscard]] Digest sha256(std::string_view bytes);
[[nodiscard]] Digest hmac_sha256(std::string_view key, std::string_view bytes);

// Takes the same time wherever the first difference stands.
[[nodiscard]] bool equal_in_constant_time(const Digest& left, const Digest& right) noexcept;

[[nodiscard]] std::string to_hex(const Digest& digest);
[[nodiscard]] std::optional<Digest> digest_from_hex(std::string_view hex) noexcept;

// The bytes as they are, for a column or a key.
[[nodiscard]] std::string_view as_bytes(const Digest& digest) noexcept;
[[nodiscard]] std::optional<Digest> digest_from_bytes(std::string_view bytes) noexcept;

}  // namespace caisson::store
