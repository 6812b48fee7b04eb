// policy/wording.h — how a value appears in a message or a listing, whatever bytes it holds.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace caisson::policy {

inline constexpr std::size_t kQuotedBytesMax = 80;

// Only printable ASCII survives, the rest becomes \xNN, and a long text is cut: a message may reach
// a terminal, a log line or a JSON string, and an escape sequence planted in a file must not act
// there.
[[nodiscard]] std::string printable(std::string_view text);

// printable() in double quotes.
[[nodiscard]] std::string in_quotes(std::string_view text);

// The shortest decimal that reads back as the same number, with at least `fraction_digits_min`
// digits after the point.
[[nodiscard]] std::string decimal(double value, std::size_t fraction_digits_min);

// Well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

// C0 controls and DEL.
[[nodiscard]] constexpr bool is_control(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

// The C library's versions of these depend on the locale.
[[nodiscard]] constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
[[nodiscard]] constexpr bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
[[nodiscard]] constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
[[nodiscard]] std::string lower(std::string_view text);

}  // namespace caisson::policy
