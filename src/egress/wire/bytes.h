// egress/wire/bytes.h — reading and writing big-endian fields of hostile messages. A read beyond
// the end gives nothing and moves nothing, so a parser is a list of reads, each of which may say
// no.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace caisson::egress {

using Bytes = std::span<const std::uint8_t>;
using Buffer = std::vector<std::uint8_t>;

[[nodiscard]] inline std::string_view as_text(Bytes bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
[[nodiscard]] inline Bytes as_bytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

class ByteReader {
 public:
  explicit ByteReader(Bytes bytes, std::size_t at = 0) noexcept
      : bytes_(bytes), at_(at <= bytes.size() ? at : bytes.size()) {}

  [[nodiscard]] std::size_t at() const noexcept { return at_; }
  [[nodiscard]] std::size_t left() const noexcept { return bytes_.size() - at_; }
  [[nodiscard]] bool done() const noexcept { return left() == 0; }

  [[nodiscard]] std::optional<Bytes> take(std::size_t size) noexcept {
    if (size > left()) return std::nullopt;
    const Bytes out = bytes_.subspan(at_, size);
    at_ += size;
    return out;
  }
  [[nodiscard]] std::optional<std::uint8_t> u8() noexcept {
    const auto got = take(1);
    if (!got) return std::nullopt;
    return (*got)[0];
  }
  [[nodiscard]] std::optional<std::uint16_t> u16() noexcept {
    const auto got = take(2);
    if (!got) return std::nullopt;
    return static_cast<std::uint16_t>((unsigned{(*got)[0]} << 8) | (*got)[1]);
  }
  [[nodiscard]] std::optional<std::uint32_t> u32() noexcept {
    const auto got = take(4);
    if (!got) return std::nullopt;
    std::uint32_t value = 0;
    for (const std::uint8_t byte : *got) value = (value << 8) | byte;
    return value;
  }
  // A vector with its own length in front, of one or two bytes.
  [[nodiscard]] std::optional<Bytes> vector8() noexcept {
    const std::size_t start = at_;
    const auto size = u8();
    const auto out = size ? take(*size) : std::nullopt;
    if (!out) at_ = start;
    return out;
  }
  [[nodiscard]] std::optional<Bytes> vector16() noexcept {
    const std::size_t start = at_;
    const auto size = u16();
    const auto out = size ? take(*size) : std::nullopt;
    if (!out) at_ = start;
    return out;
  }

 private:
  Bytes bytes_;
  std::size_t at_;
};

inline void put_u16(Buffer& out, std::uint16_t value) {
  out.push_back(static_cast<std::uint8_t>(value >> 8));
  out.push_back(static_cast<std::uint8_t>(value & 0xff));
}
inline void put_u32(Buffer& out, std::uint32_t value) {
  put_u16(out, static_cast<std::uint16_t>(value >> 16));
  put_u16(out, static_cast<std::uint16_t>(value & 0xffff));
}
inline void put_bytes(Buffer& out, Bytes bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace caisson::egress
