#include "base/base64.h"

#include <array>
#include <cstdint>

namespace caisson {
namespace {

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> reverse_base64() {
  std::array<std::int8_t, 256> table{};
  table.fill(-1);
  for (std::size_t i = 0; i < kBase64.size(); ++i) {
    table[static_cast<unsigned char>(kBase64[i])] = static_cast<std::int8_t>(i);
  }
  return table;
}

}  // namespace

// Long output of processes passes here: whole groups of three first, without a question per byte.
std::string to_base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '=');
  const auto byte = [bytes](std::size_t at) {
    return std::uint32_t{static_cast<unsigned char>(bytes[at])};
  };
  std::size_t at = 0;
  char* to = out.data();
  for (; at + 3 <= bytes.size(); at += 3, to += 4) {
    const std::uint32_t group = byte(at) << 16U | byte(at + 1) << 8U | byte(at + 2);
    to[0] = kBase64[group >> 18U];
    to[1] = kBase64[group >> 12U & 63U];
    to[2] = kBase64[group >> 6U & 63U];
    to[3] = kBase64[group & 63U];
  }
  if (at == bytes.size()) return out;
  const bool two = at + 2 == bytes.size();
  const std::uint32_t group = byte(at) << 16U | (two ? byte(at + 1) << 8U : 0U);
  to[0] = kBase64[group >> 18U];
  to[1] = kBase64[group >> 12U & 63U];
  if (two) to[2] = kBase64[group >> 6U & 63U];
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  static constexpr std::array<std::int8_t, 256> kReverse = reverse_base64();
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  std::string out;
  out.reserve(text.size() / 4 * 3 + 3);
  std::uint32_t held = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const std::int8_t value = kReverse[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    held = (held << 6U | static_cast<std::uint32_t>(value)) & 0xFFFFFFU;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out += static_cast<char>(held >> bits & 0xFFU);
    }
  }
  // Bits that are in no byte must be 0, or one content would have several spellings.
  if ((held & ((1U << bits) - 1U)) != 0) return std::nullopt;
  return out;
}

}  // namespace caisson
