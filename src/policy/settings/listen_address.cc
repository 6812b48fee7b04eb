#include "policy/settings/listen_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

#include "policy/host_name.h"
#include "policy/lexical_path.h"
#include "policy/wording.h"

namespace caisson::policy {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kForms =
    "want ADDRESS:PORT such as 127.0.0.1:8080 or [::1]:8080, or unix:/path";

std::unexpected<Error> malformed(std::string_view text, std::string_view why) {
  return failure(Errc::InvalidArgument, fmt::format("{}: {}", in_quotes(text), why));
}

// The address as the kernel prints it, or nothing when these bytes are no address of that family.
std::optional<std::string> canonical(int family, std::string_view text) {
  std::array<unsigned char, sizeof(in6_addr)> raw{};
  std::array<char, INET6_ADDRSTRLEN> shown{};
  if (::inet_pton(family, std::string(text).c_str(), raw.data()) != 1) return std::nullopt;
  if (::inet_ntop(family, raw.data(), shown.data(), shown.size()) == nullptr) return std::nullopt;
  return std::string(shown.data());
}

std::optional<std::uint16_t> port_or_zero(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool leading_zero = text.size() > 1 && text.front() == '0';
  if (code != std::errc() || end != text.data() + text.size() || leading_zero) return std::nullopt;
  return port;
}

Result<ListenAddress> parse_unix(std::string_view text) {
  const std::string_view path = text.substr(kUnix.size());
  if (!path.starts_with('/')) return malformed(text, "a unix socket needs an absolute path");
  if (path.size() > kUnixPathBytesMax) {
    return malformed(
        text, fmt::format("the path of a unix socket has at most {} bytes", kUnixPathBytesMax));
  }
  return ListenAddress{ListenAddress::Family::Unix, TRY(clean_path(path)), 0};
}

// Splits "HOST:PORT" and "[V6]:PORT" and the same without a port.
struct HostPort {
  std::string_view host;
  bool bracketed = false;
  std::optional<std::string_view> port;
};

std::optional<HostPort> split(std::string_view text) {
  HostPort parts;
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    parts.host = text.substr(1, close - 1);
    parts.bracketed = true;
    rest = text.substr(close + 1);
    if (!rest.empty() && !rest.starts_with(':')) return std::nullopt;
  } else {
    const std::size_t colon = text.find(':');
    parts.host = text.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon);
  }
  if (!rest.empty()) parts.port = rest.substr(1);
  return parts;
}

}  // namespace

bool ListenAddress::is_local() const noexcept {
  switch (family) {
    case Family::Unix:
      return true;
    case Family::Ip4:
      return host.starts_with("127.");
    case Family::Ip6:
      return host == "::1";
  }
  return false;
}

std::string to_string(const ListenAddress& address) {
  switch (address.family) {
    case ListenAddress::Family::Unix:
      return fmt::format("{}{}", kUnix, address.host);
    case ListenAddress::Family::Ip4:
      return fmt::format("{}:{}", address.host, address.port);
    case ListenAddress::Family::Ip6:
      return fmt::format("[{}]:{}", address.host, address.port);
  }
  return {};
}

Result<ListenAddress> parse_listen_address(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return malformed(text, "a NUL byte");
  if (text.starts_with(kUnix)) return parse_unix(text);
  const auto parts = split(text);
  if (!parts || !parts->port) return malformed(text, kForms);
  const auto port = port_or_zero(*parts->port);
  if (!port) return malformed(text, "the port is a number from 0 to 65535; 0 picks a free one");
  ListenAddress out;
  out.family = parts->bracketed ? ListenAddress::Family::Ip6 : ListenAddress::Family::Ip4;
  out.port = *port;
  const auto host = canonical(parts->bracketed ? AF_INET6 : AF_INET, parts->host);
  if (!host && !parts->bracketed && parts->host == "localhost")
    return malformed(text, "names are not looked up; write 127.0.0.1 or [::1]");
  if (!host) return malformed(text, kForms);
  out.host = *host;
  return out;
}

Result<std::string> parse_host_header(std::string_view text) {
  const auto parts = split(text);
  if (!parts || text.find('\0') != std::string_view::npos)
    return malformed(text, "want HOST or HOST:PORT");
  std::string host;
  if (const auto v6 = parts->bracketed ? canonical(AF_INET6, parts->host) : std::nullopt) {
    host = fmt::format("[{}]", *v6);
  } else if (const auto v4 = parts->bracketed ? std::nullopt : canonical(AF_INET, parts->host)) {
    host = *v4;
  } else if (parts->bracketed) {
    return malformed(text, "no IPv6 address stands in the brackets");
  } else {
    host = TRY(canonical_host(parts->host));
  }
  if (!parts->port) return host;
  const std::uint16_t port = TRY(parse_port(*parts->port));
  return fmt::format("{}:{}", host, port);
}

Result<std::string> parse_origin(std::string_view text) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (!text.starts_with(scheme)) continue;
    return std::string(scheme) + TRY(parse_host_header(text.substr(scheme.size())));
  }
  return malformed(text, "want an origin such as https://console.example.com, without a path");
}

}  // namespace caisson::policy
