#include "policy/host_name.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/wording.h"

namespace caisson::policy {

namespace {

std::unexpected<Error> refuse(std::string_view text, std::string_view why) {
  return failure(Errc::InvalidArgument, fmt::format("host {}: {}", in_quotes(text), why));
}

bool is_hex_digit(char c) { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f'); }

// Resolvers read a name whose last label is a number as an IPv4 address, in decimal, octal or hex
// and with fewer than four parts. No top-level domain is a number, so nothing else is lost.
bool reads_as_number(std::string_view label) {
  if (std::ranges::all_of(label, is_digit)) return true;
  if (label.size() < 2 || label[0] != '0' || lower(label[1]) != 'x') return false;
  return std::ranges::all_of(label.substr(2), is_hex_digit);
}

std::string_view fault_of_byte(char c) {
  if (c == '\0') return "a NUL byte";
  if (is_control(c) || c == ' ') return "a space or control character";
  if (static_cast<unsigned char>(c) >= 0x80) return "not ASCII; write the xn-- form";
  if (c == ':' || c == '[' || c == ']') return "an address or port is not a host name";
  if (c == '*') return "'*' stands only as a leading \"*.\" of a rule";
  return "only letters, digits, '-', '_' and '.' make a host name";
}

std::string_view fault_of_label(std::string_view label) {
  if (label.empty()) return "an empty label (two dots, or one at an end)";
  if (label.size() > kLabelBytesMax) return "a label is longer than 63 bytes";
  if (label.front() == '-' || label.back() == '-') return "a label begins or ends with '-'";
  return {};
}

}  // namespace

Result<std::string> canonical_host(std::string_view text) {
  if (text.empty()) return refuse(text, "empty");
  if (text.size() > kHostBytesMax) return refuse(text, "longer than 253 bytes");
  for (const char c : text) {
    const bool good = is_letter(c) || is_digit(c) || c == '-' || c == '_' || c == '.';
    if (!good) return refuse(text, fault_of_byte(c));
  }
  std::string_view label;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    label = text.substr(begin, end - begin);
    const std::string_view fault = fault_of_label(label);
    if (!fault.empty()) return refuse(text, fault);
    begin = end + 1;
  }
  if (reads_as_number(label)) return refuse(text, "an IP address is not a host name");
  return lower(text);
}

Result<std::string> canonical_rule_domain(std::string_view text) {
  constexpr std::string_view kWildcard = "*.";
  if (!text.starts_with(kWildcard)) return canonical_host(text);
  return std::string(kWildcard) + TRY(canonical_host(text.substr(kWildcard.size())));
}

Result<std::uint16_t> parse_port(std::string_view text) {
  const bool digits = !text.empty() && text.size() <= 5 && std::ranges::all_of(text, is_digit);
  std::int64_t port = 0;
  if (digits && text.front() != '0') {
    for (const char c : text) port = port * 10 + (c - '0');
  }
  if (port < 1 || port > kPortMax) {
    return failure(Errc::InvalidArgument,
                   fmt::format("port {}: must be a number from 1 to 65535", in_quotes(text)));
  }
  return static_cast<std::uint16_t>(port);
}

}  // namespace caisson::policy
