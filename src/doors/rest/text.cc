#include "doors/rest/text.h"

namespace caisson::rest {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

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
