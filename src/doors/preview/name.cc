#include "doors/preview/name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/id.h"

namespace caisson::preview {
namespace {

constexpr std::size_t kPortDigitsMax = 5;

std::optional<std::uint16_t> port_of(std::string_view digits) {
  if (digits.empty() || digits.size() > kPortDigitsMax || digits.front() == '0') {
    return std::nullopt;
  }
  std::uint16_t port = 0;
  const auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (wrong != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return port;
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

}  // namespace

std::optional<std::string_view> host_name(std::string_view host) {
  const std::size_t colon = host.find(':');
  if (colon == std::string_view::npos) return host;
  if (!port_of(host.substr(colon + 1))) return std::nullopt;
  return host.substr(0, colon);
}

// A browser writes names in lower case, and takes "a.example." for another site than "a.example",
// with other cookies. So there is exactly one way to write each of ours.
std::optional<Name> parse_name(std::string_view host, std::string_view vhost) {
  const auto name = host_name(host);
  if (!name || vhost.empty() || name->size() <= vhost.size() + 1 || !name->ends_with(vhost)) {
    return std::nullopt;
  }
  std::string_view label = name->substr(0, name->size() - vhost.size());
  if (!label.ends_with('.')) return std::nullopt;
  label.remove_suffix(1);
  Name out;
  if (const std::size_t dash = label.find('-'); dash != std::string_view::npos) {
    out.port = port_of(label.substr(0, dash));
    if (!out.port) return std::nullopt;
    label.remove_prefix(dash + 1);
  }
  const auto id = SandboxId::parse(label);
  if (!id) return std::nullopt;
  out.sandbox = id->str();
  return out;
}

std::string make_host(const Name& name, std::string_view vhost) {
  if (name.port) return fmt::format("{}-{}.{}", *name.port, name.sandbox, vhost);
  return fmt::format("{}.{}", name.sandbox, vhost);
}

std::string make_origin(std::string_view host, const PreviewOptions& options) {
  const std::uint16_t usual = options.scheme == "https" ? 443 : 80;
  if (options.port == 0 || options.port == usual) {
    return fmt::format("{}://{}", options.scheme, host);
  }
  return fmt::format("{}://{}:{}", options.scheme, host, options.port);
}

bool is_local_path(std::string_view path) {
  const bool visible = std::ranges::all_of(
      path, [](char c) { return c > ' ' && c < 0x7F && c != '\\' && c != '#'; });
  return visible && path.starts_with('/') && !path.starts_with("//") && !path.starts_with(kOwnPath);
}

std::string percent_encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_unreserved(c)) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace caisson::preview
