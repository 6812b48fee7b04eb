#include "egress/wire/host_name.h"

#include <algorithm>

#include "policy/host_name.h"
#include "policy/wording.h"

namespace caisson::egress {

namespace {

bool holds(std::string_view text, std::string_view any_of) {
  return text.find_first_of(any_of) != std::string_view::npos;
}

bool has_long_label(std::string_view text) {
  std::size_t run = 0;
  for (const char c : text) {
    run = c == '.' ? 0 : run + 1;
    if (run > policy::kLabelBytesMax) return true;
  }
  return false;
}

bool is_host_byte(char c) {
  return policy::is_letter(c) || policy::is_digit(c) || c == '-' || c == '_' || c == '.';
}

// Explains a refusal that is already decided: a wrong explanation can mislead a reader of the
// audit, but it lets nothing through.
HostFault explain(std::string_view text) {
  if (text.empty()) return HostFault::Empty;
  if (text.find('\0') != std::string_view::npos) return HostFault::NulByte;
  const auto is_high = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
  if (std::ranges::any_of(text, is_high)) return HostFault::NotAscii;
  if (text.size() > policy::kHostBytesMax) return HostFault::TooLong;
  if (holds(text, "@")) return HostFault::Userinfo;
  if (holds(text, "#")) return HostFault::Fragment;
  if (holds(text, "[]") || std::ranges::count(text, ':') > 1) return HostFault::AddressLiteral;
  if (holds(text, ":")) return HostFault::Port;
  if (holds(text, "*")) return HostFault::Wildcard;
  if (!std::ranges::all_of(text, is_host_byte)) return HostFault::BadByte;
  if (text.size() > 1 && text.ends_with('.') && !text.ends_with("..")) {
    return HostFault::TrailingDot;
  }
  if (text.starts_with('.') || text.ends_with('.') || text.find("..") != std::string_view::npos) {
    return HostFault::EmptyLabel;
  }
  if (has_long_label(text)) return HostFault::TooLong;
  if (text.starts_with('-') || text.ends_with('-') || text.find(".-") != std::string_view::npos ||
      text.find("-.") != std::string_view::npos) {
    return HostFault::Hyphen;
  }
  return HostFault::AddressLiteral;
}

}  // namespace

std::string_view to_string(HostFault fault) noexcept {
  switch (fault) {
    case HostFault::Empty:
      return "the host is empty";
    case HostFault::TooLong:
      return "the host is longer than 253 bytes, or a label than 63";
    case HostFault::NulByte:
      return "a NUL byte in the host";
    case HostFault::BadByte:
      return "only letters, digits, '-', '_' and '.' make a host name";
    case HostFault::NotAscii:
      return "the host is not ASCII; write its xn-- form";
    case HostFault::Userinfo:
      return "a user name or password in front of the host";
    case HostFault::Fragment:
      return "a fragment behind the host";
    case HostFault::Wildcard:
      return "'*' stands only in rules";
    case HostFault::Port:
      return "a port where only a host may stand";
    case HostFault::TrailingDot:
      return "the host ends in a dot; write it without";
    case HostFault::EmptyLabel:
      return "the host has an empty label";
    case HostFault::Hyphen:
      return "a label begins or ends with '-'";
    case HostFault::AddressLiteral:
      return "an IP address is not a host name; connect by name";
  }
  return "not a host name";
}

std::expected<HostName, HostFault> HostName::parse(std::string_view text) {
  Result<std::string> canonical = policy::canonical_host(text);
  if (!canonical) return std::unexpected(explain(text));
  return HostName(std::move(*canonical));
}

}  // namespace caisson::egress
