#include "doors/rest/text.h"

#include <array>
#include <cstdint>

namespace caisson::rest {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool is_tail(std::string_view bytes, std::size_t at) {
  return at < bytes.size() && (static_cast<unsigned char>(bytes[at]) & 0xC0U) == 0x80U;
}

// Length of the valid character at `at`, or 0. Overlong forms, surrogates and what lies beyond
// U+10FFFF are not valid.
std::size_t character_at(std::string_view bytes, std::size_t at) {
  const auto first = static_cast<unsigned char>(bytes[at]);
  if (first < 0x80U) return 1;
  if (first < 0xC2U || first > 0xF4U || !is_tail(bytes, at + 1)) return 0;
  const auto second = static_cast<unsigned char>(bytes[at + 1]);
  if (first < 0xE0U) return 2;
  if (first < 0xF0U) {
    if ((first == 0xE0U && second < 0xA0U) || (first == 0xEDU && second > 0x9FU)) return 0;
    return is_tail(bytes, at + 2) ? 3 : 0;
  }
  if ((first == 0xF0U && second < 0x90U) || (first == 0xF4U && second > 0x8FU)) return 0;
  return is_tail(bytes, at + 2) && is_tail(bytes, at + 3) ? 4 : 0;
}

std::array<std::int8_t, 256> reverse_base64() {
  std::array<std::int8_t, 256> table{};
  table.fill(-1);
  for (std::size_t i = 0; i < kBase64.size(); ++i) {
    table[static_cast<unsigned char>(kBase64[i])] = static_cast<std::int8_t>(i);
  }
  return table;
}

}  // namespace

std::string valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = character_at(bytes, at);
    out += length == 0 ? kReplacement : bytes.substr(at, length);
    at += length == 0 ? 1 : length;
  }
  return out;
}

std::string_view cut_utf8(std::string_view text, std::size_t bytes_max) noexcept {
  if (text.size() <= bytes_max) return text;
  while (bytes_max > 0 && is_tail(text, bytes_max)) --bytes_max;
  return text.substr(0, bytes_max);
}

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
  static const std::array<std::int8_t, 256> kReverse = reverse_base64();
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

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
    }
  }
  return out;
}

}  // namespace caisson::rest
