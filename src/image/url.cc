#include "image/url.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "policy/host_name.h"

namespace caisson::image {

namespace {

std::unexpected<Error> bad(std::string_view text, std::string_view why) {
  return failure(Errc::Protocol,
                 fmt::format("'{}' is not a usable URL: {}",
                             text.substr(0, std::min<std::size_t>(text.size(), 120)), why));
}

}  // namespace

Result<Url> Url::parse(std::string_view text) {
  if (text.size() > kUrlBytesMax) return bad(text, "it is too long");
  if (!std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; })) {
    return bad(text, "it has a space, a control character or a byte beyond ASCII");
  }
  Url out;
  std::string_view rest = text;
  if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
    out.tls = false;
    out.port = 80;
  } else {
    return bad(text, "it begins neither with https:// nor with http://");
  }
  const std::size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  const std::string_view authority = rest.substr(0, end);
  rest.remove_prefix(end);
  if (authority.find_first_of("@\\") != authority.npos) return bad(text, "it has a user in it");
  if (rest.find('#') != rest.npos) rest = rest.substr(0, rest.find('#'));
  std::string_view host = authority;
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.find(':', bracket == authority.npos ? 0 : bracket);
  if (colon != authority.npos) {
    const auto port = policy::parse_port(authority.substr(colon + 1));
    if (!port) return bad(text, port.error().message);
    out.port = *port;
    host = authority.substr(0, colon);
  }
  boost::system::error_code ec;
  if (host.starts_with('[') && host.ends_with(']')) {
    const auto six =
        boost::asio::ip::make_address_v6(std::string(host.substr(1, host.size() - 2)), ec);
    if (ec || host.find('%') != host.npos) return bad(text, "its address is malformed");
    out.host = six.to_string();
  } else if (const auto four = boost::asio::ip::make_address_v4(std::string(host), ec);
             !ec && four.to_string() == host) {
    out.host = host;
  } else {
    const auto name = policy::canonical_host(host);
    if (!name) return bad(text, name.error().message);
    out.host = *name;
  }
  out.target = rest.starts_with('/') ? std::string(rest) : "/" + std::string(rest);
  return out;
}

Result<Url> Url::follow(std::string_view location) const {
  if (location.starts_with("//")) return parse((tls ? "https:" : "http:") + std::string(location));
  if (location.starts_with('/')) {
    return parse(fmt::format("{}://{}{}", tls ? "https" : "http", authority(), location));
  }
  return parse(location);
}

std::string Url::authority() const {
  const bool six = host.find(':') != host.npos;
  const std::string name = six ? "[" + host + "]" : host;
  return port == (tls ? 443 : 80) ? name : fmt::format("{}:{}", name, port);
}

std::string Url::str() const {
  return fmt::format("{}://{}{}", tls ? "https" : "http", authority(), target);
}

bool Url::same_origin(const Url& other) const noexcept {
  return tls == other.tls && host == other.host && port == other.port;
}

bool Url::names_loopback() const {
  if (host == "localhost") return true;
  boost::system::error_code ec;
  const auto address = boost::asio::ip::make_address(host, ec);
  return !ec && address.is_loopback();
}

std::string percent_encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace caisson::image
