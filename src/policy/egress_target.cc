// Reading a URL: only as much as the decision needs, and nothing that two readers could read
// differently.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "policy/egress.h"
#include "policy/host_name.h"
#include "policy/wording.h"

namespace caisson::policy {

namespace {

struct SchemePort {
  std::string_view scheme;
  std::uint16_t port;
};

constexpr std::array<SchemePort, 11> kSchemePorts = {{
    {"http", 80},
    {"https", 443},
    {"ws", 80},
    {"wss", 443},
    {"ssh", 22},
    {"ftp", 21},
    {"postgres", 5432},
    {"postgresql", 5432},
    {"mysql", 3306},
    {"redis", 6379},
    {"git", 9418},
}};

std::optional<std::uint16_t> default_port(std::string_view scheme) {
  const auto found = std::ranges::find(kSchemePorts, lower(scheme), &SchemePort::scheme);
  if (found == kSchemePorts.end()) return std::nullopt;
  return found->port;
}

std::unexpected<Error> refuse(std::string_view url, std::string_view why) {
  return failure(Errc::InvalidArgument, fmt::format("url {}: {}", in_quotes(url), why));
}

bool is_url_byte(char c) {
  return c > ' ' && c < 0x7f && c != '\\' && c != '"' && c != '<' && c != '>';
}

bool is_scheme(std::string_view text) {
  const auto good = [](char c) {
    return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
  };
  return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, good);
}

// host or host:port; `port` is what holds when none is written.
Result<EgressTarget> parse_authority(std::string_view authority,
                                     std::optional<std::uint16_t> port) {
  const std::size_t colon = authority.find(':');
  if (colon != std::string_view::npos && !authority.starts_with('[')) {
    port = TRY(parse_port(authority.substr(colon + 1)));
    authority = authority.substr(0, colon);
  }
  std::string host = TRY(canonical_host(authority));
  return EgressTarget{std::move(host), port};
}

}  // namespace

std::string to_string(const EgressTarget& target) {
  return target.port ? fmt::format("{}:{}", target.host, *target.port) : target.host;
}

Result<EgressTarget> parse_egress_target(std::string_view url) {
  if (url.empty()) return refuse(url, "empty");
  if (url.size() > kUrlBytesMax) return refuse(url, "longer than 8192 bytes");
  if (!std::ranges::all_of(url, is_url_byte)) {
    return refuse(url, "a space, control, quote, '\\' or non-ASCII character");
  }
  if (url.find('#') != std::string_view::npos) return refuse(url, "a fragment is not allowed");

  const std::size_t separator = url.find("://");
  const std::size_t first_slash = url.find_first_of("/?");
  if (separator == std::string_view::npos || first_slash < separator) {
    if (first_slash != std::string_view::npos) {
      return refuse(url, "a path needs a scheme in front, such as https://");
    }
    return parse_authority(url, std::nullopt);
  }

  const std::string_view scheme = url.substr(0, separator);
  if (!is_scheme(scheme)) return refuse(url, "not a scheme before \"://\"");
  std::string_view authority = url.substr(separator + 3);
  authority = authority.substr(0, authority.find_first_of("/?"));
  if (authority.find('@') != std::string_view::npos) {
    return refuse(url, "a user name or password is not allowed");
  }
  EgressTarget target = TRY(parse_authority(authority, default_port(scheme)));
  if (!target.port) return refuse(url, "this scheme has no known port; write one");
  return target;
}

}  // namespace caisson::policy
