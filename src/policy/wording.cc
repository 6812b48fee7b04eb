#include "policy/wording.h"

#include <fmt/format.h>

#include <iterator>

namespace caisson::policy {

std::string printable(std::string_view text) {
  std::string out;
  const std::string_view shown = text.substr(0, kQuotedBytesMax);
  for (const char c : shown) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (is_control(c) || static_cast<unsigned char>(c) >= 0x80) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  if (shown.size() < text.size()) out += "...";
  return out;
}

std::string in_quotes(std::string_view text) { return '"' + printable(text) + '"'; }

std::string decimal(double value, std::size_t fraction_digits_min) {
  std::string out = fmt::format("{}", value);
  if (out.find_first_of("en") != std::string::npos) return out;  // 1e-09, nan, inf
  std::size_t point = out.find('.');
  if (point == std::string::npos) {
    if (fraction_digits_min == 0) return out;
    point = out.size();
    out += '.';
  }
  const std::size_t digits = out.size() - point - 1;
  if (digits < fraction_digits_min) out.append(fraction_digits_min - digits, '0');
  return out;
}

namespace {

// The length of the well-formed sequence that `text` begins with, or 0. The bounds of the second
// byte exclude overlong forms (E0, F0), surrogates (ED) and what lies above U+10FFFF (F4).
std::size_t utf8_sequence(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  }
  if (length == 0 || text.size() < length) return 0;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

}  // namespace caisson::policy
