#include "egress/wire/proxy_target.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/host_name.h"
#include "policy/wording.h"

namespace caisson::egress {

namespace {

std::unexpected<TargetRefusal> refuse(TargetFault fault) {
  return std::unexpected(TargetRefusal{fault, std::nullopt});
}

bool is_target_byte(char c) {
  return c > ' ' && c < 0x7f && c != '\\' && c != '"' && c != '<' && c != '>';
}

std::optional<TargetFault> fault_of_bytes(std::string_view text) {
  if (text.empty()) return TargetFault::Empty;
  if (text.size() > kTargetBytesMax) return TargetFault::TooLong;
  if (!std::ranges::all_of(text, is_target_byte)) return TargetFault::BadByte;
  if (text.find('#') != std::string_view::npos) return TargetFault::Fragment;
  return std::nullopt;
}

struct Authority {
  HostName host;
  std::optional<std::uint16_t> port;
};

// An authority with '[' is an address literal: HostName says so, whatever colons follow.
std::expected<Authority, TargetRefusal> parse_authority(std::string_view text) {
  if (text.find('@') != std::string_view::npos) return refuse(TargetFault::Userinfo);
  std::optional<std::uint16_t> port;
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos && colon == text.rfind(':') && !text.starts_with('[')) {
    const Result<std::uint16_t> parsed = policy::parse_port(text.substr(colon + 1));
    if (!parsed) return refuse(TargetFault::PortBad);
    port = *parsed;
    text = text.substr(0, colon);
  }
  auto host = HostName::parse(text);
  if (!host) return std::unexpected(TargetRefusal{TargetFault::Host, host.error()});
  return Authority{std::move(*host), port};
}

int hex_value(char c) {
  if (policy::is_digit(c)) return c - '0';
  const char low = policy::lower(c);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

}  // namespace

std::string_view to_string(TargetFault fault) noexcept {
  switch (fault) {
    case TargetFault::Empty:
      return "the target is empty";
    case TargetFault::TooLong:
      return "the target is longer than 8192 bytes";
    case TargetFault::BadByte:
      return "a space, control, quote, '\\' or non-ASCII character in the target";
    case TargetFault::Fragment:
      return "a fragment in the target";
    case TargetFault::Userinfo:
      return "a user name or password in the target";
    case TargetFault::Form:
      return "the target has not the form of a proxy request";
    case TargetFault::Scheme:
      return "only http:// is forwarded; use CONNECT for the rest";
    case TargetFault::Host:
      return "the target's host";
    case TargetFault::PortMissing:
      return "CONNECT needs host:port";
    case TargetFault::PortBad:
      return "the target's port is not a number from 1 to 65535";
    case TargetFault::HostFieldMissing:
      return "the request has no Host field";
    case TargetFault::HostFieldTwice:
      return "the request has more than one Host field";
    case TargetFault::HostFieldBad:
      return "the Host field is no host";
    case TargetFault::HostFieldOther:
      return "the Host field names another host or port than the target";
  }
  return "not a proxy request";
}

std::string to_string(const TargetRefusal& refusal) {
  if (!refusal.host_fault) return std::string(to_string(refusal.fault));
  return fmt::format("{}: {}", to_string(refusal.fault), to_string(*refusal.host_fault));
}

TargetResult parse_connect_target(std::string_view text, PortRule rule) {
  if (const auto fault = fault_of_bytes(text)) return refuse(*fault);
  if (text.find_first_of("/?") != std::string_view::npos) return refuse(TargetFault::Form);
  auto authority = parse_authority(text);
  if (!authority) return std::unexpected(authority.error());
  if (!authority->port && rule == PortRule::Required) return refuse(TargetFault::PortMissing);
  return ProxyTarget{std::move(authority->host), authority->port.value_or(kHttpsPort), {}};
}

TargetResult parse_absolute_target(std::string_view text) {
  if (const auto fault = fault_of_bytes(text)) return refuse(*fault);
  const std::size_t separator = text.find("://");
  if (separator == std::string_view::npos || text.find_first_of("/?") < separator) {
    return refuse(TargetFault::Form);
  }
  if (policy::lower(text.substr(0, separator)) != "http") return refuse(TargetFault::Scheme);
  const std::string_view rest = text.substr(separator + 3);
  const std::size_t path_at = std::min(rest.find_first_of("/?"), rest.size());
  auto authority = parse_authority(rest.substr(0, path_at));
  if (!authority) return std::unexpected(authority.error());
  std::string path(rest.substr(path_at));
  if (!path.starts_with('/')) path.insert(path.begin(), '/');
  return ProxyTarget{std::move(authority->host), authority->port.value_or(kHttpPort),
                     std::move(path)};
}

TargetResult parse_origin_target(std::string_view text, const HostName& host, std::uint16_t port) {
  if (const auto fault = fault_of_bytes(text)) return refuse(*fault);
  if (!text.starts_with('/')) return refuse(TargetFault::Form);
  return ProxyTarget{host, port, std::string(text)};
}

TargetResult parse_proxy_target(std::string_view method, std::string_view text, PortRule rule) {
  return method == "CONNECT" ? parse_connect_target(text, rule) : parse_absolute_target(text);
}

std::expected<void, TargetRefusal> check_host_field(const ProxyTarget& target,
                                                    std::span<const std::string_view> values,
                                                    HostFieldRule rule,
                                                    std::optional<std::uint16_t> default_port) {
  if (values.size() > 1) return refuse(TargetFault::HostFieldTwice);
  if (values.empty()) {
    if (rule == HostFieldRule::Optional) return {};
    return refuse(TargetFault::HostFieldMissing);
  }
  const auto field = parse_authority(values.front());
  if (!field) {
    return std::unexpected(TargetRefusal{TargetFault::HostFieldBad, field.error().host_fault});
  }
  const std::uint16_t port = field->port.value_or(default_port.value_or(target.port));
  if (field->host != target.host || port != target.port) {
    return refuse(TargetFault::HostFieldOther);
  }
  return {};
}

bool is_plain_path(std::string_view path) noexcept {
  path = path.substr(0, path.find('?'));
  if (!path.starts_with('/')) return false;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (!is_target_byte(path[i]) || path[i] == ';') return false;
    if (path[i] != '%') continue;
    if (path.size() - i < 3) return false;
    const int high = hex_value(path[i + 1]);
    const int low = hex_value(path[i + 2]);
    if (high < 0 || low < 0) return false;
    const int byte = high * 16 + low;
    // An escaped '%' may be decoded twice by somebody behind.
    if (byte < 0x20 || byte == '.' || byte == '/' || byte == '\\' || byte == '%' || byte == ';') {
      return false;
    }
  }
  std::string_view rest = path.substr(1);
  for (;;) {
    const std::size_t end = rest.find('/');
    const std::string_view segment = rest.substr(0, end);
    if (segment == "." || segment == "..") return false;
    if (end == std::string_view::npos) return true;
    if (segment.empty()) return false;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace caisson::egress
