#include "control/text.h"

#include <array>
#include <cstdint>

namespace caisson::control {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Length of the valid character at the front, or 0.
std::size_t character(std::string_view bytes) noexcept {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || bytes.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((at(i) & 0xC0U) != 0x80U) return 0;
  }
  // Over-long forms, surrogates, and what lies beyond U+10FFFF.
  const unsigned char second = at(1);
  if (first == 0xE0 && second < 0xA0) return 0;
  if (first == 0xED && second > 0x9F) return 0;
  if (first == 0xF0 && second < 0x90) return 0;
  if (first == 0xF4 && second > 0x8F) return 0;
  return size;
}

int digit(char c) noexcept {
  const std::size_t at = kAlphabet.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

}  // namespace

bool is_utf8(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const std::size_t size = character(bytes);
    if (size == 0) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

std::string to_utf8(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  std::string out;
  out.reserve(bytes.size() + 16);
  while (!bytes.empty()) {
    const std::size_t size = character(bytes);
    out.append(size == 0 ? kReplacement : bytes.substr(0, size));
    bytes.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

std::string cut_text(std::string_view bytes, std::size_t bytes_max) {
  std::string out;
  while (!bytes.empty()) {
    const std::size_t size = character(bytes);
    const std::string_view next = size == 0 ? kReplacement : bytes.substr(0, size);
    if (out.size() + next.size() > bytes_max) break;
    out.append(next);
    bytes.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

std::string to_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      const auto byte = j < left ? static_cast<unsigned char>(bytes[i + j]) : 0U;
      group = (group << 8U) | byte;
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += j <= left ? kAlphabet[(group >> (18 - 6 * j)) & 63U] : '=';
    }
  }
  return out;
}

Result<std::string> from_base64(std::string_view text) {
  const auto wrong = [] {
    return failure(Errc::InvalidArgument, "not base64: want its alphabet, padded with '='");
  };
  if (text.size() % 4 != 0) return wrong();
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  const std::string_view digits = text.substr(0, text.size() - padding);
  std::string out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t group = 0;
  unsigned bits = 0;
  for (const char c : digits) {
    const int value = digit(c);
    if (value < 0) return wrong();
    group = (group << 6U) | static_cast<std::uint32_t>(value);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    out += static_cast<char>((group >> bits) & 0xFFU);
  }
  // What is left over must be zero, or two texts would mean the same bytes.
  if ((group & ((1U << bits) - 1U)) != 0) return wrong();
  return out;
}

}  // namespace caisson::control
