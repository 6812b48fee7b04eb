// egress/wire/ip_address.h — an address as a value: four or sixteen bytes, no port, no zone.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "egress/wire/bytes.h"

namespace caisson::egress {

enum class IpFamily : std::uint8_t { V4, V6 };

class IpAddress {
 public:
  using V4 = std::array<std::uint8_t, 4>;
  using V6 = std::array<std::uint8_t, 16>;

  [[nodiscard]] static constexpr IpAddress v4(V4 bytes) noexcept {
    IpAddress out(IpFamily::V4);
    for (std::size_t i = 0; i < bytes.size(); ++i) out.bytes_[i] = bytes[i];
    return out;
  }
  [[nodiscard]] static constexpr IpAddress v4(std::uint32_t value) noexcept {
    return v4(V4{static_cast<std::uint8_t>(value >> 24), static_cast<std::uint8_t>(value >> 16),
                 static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)});
  }
  [[nodiscard]] static constexpr IpAddress v6(V6 bytes) noexcept {
    IpAddress out(IpFamily::V6);
    out.bytes_ = bytes;
    return out;
  }
  // Four or sixteen bytes in network order; any other size is no address.
  [[nodiscard]] static std::optional<IpAddress> from_bytes(Bytes bytes) noexcept;

  // The one usual spelling of each family: four decimal numbers without leading zeros, or RFC 4291
  // without brackets and zone.
  [[nodiscard]] static std::optional<IpAddress> parse(std::string_view text);

  [[nodiscard]] constexpr IpFamily family() const noexcept { return family_; }
  [[nodiscard]] constexpr std::size_t size() const noexcept {
    return family_ == IpFamily::V4 ? 4 : 16;
  }
  [[nodiscard]] constexpr std::uint8_t operator[](std::size_t i) const noexcept {
    return bytes_[i];
  }
  [[nodiscard]] Bytes bytes() const noexcept { return Bytes(bytes_).first(size()); }
  // The four bytes from `at` on, as a number; for V4 `at` is 0.
  [[nodiscard]] constexpr std::uint32_t u32(std::size_t at = 0) const noexcept {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + 4; ++i) value = (value << 8) | bytes_[i];
    return value;
  }

  friend constexpr bool operator==(const IpAddress&, const IpAddress&) = default;
  friend constexpr auto operator<=>(const IpAddress&, const IpAddress&) = default;

 private:
  explicit constexpr IpAddress(IpFamily family) noexcept : family_(family) {}

  IpFamily family_;
  V6 bytes_{};  // V4: the first four, the rest zero
};

[[nodiscard]] std::string to_string(const IpAddress& address);

}  // namespace caisson::egress
