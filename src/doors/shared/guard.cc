#include "doors/shared/guard.h"

#include <algorithm>
#include <array>
#include <optional>

namespace caisson::doors {
namespace {

struct Authority {
  std::string_view name;  // "[::1]" with its brackets
  std::string_view port;  // empty without
};

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<Authority> split_authority(std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::size_t end = 0;
  if (text.front() == '[') {
    end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    ++end;
  } else {
    end = std::min(text.find(':'), text.size());
  }
  Authority parts{text.substr(0, end), {}};
  if (end == text.size()) return parts.name.empty() ? std::nullopt : std::optional(parts);
  if (text[end] != ':' || end == 0) return std::nullopt;
  parts.port = text.substr(end + 1);
  if (!is_digits(parts.port) || parts.port.size() > 5) return std::nullopt;
  return parts;
}

bool is_address(std::string_view name) {
  if (name.front() == '[') {
    return name.substr(1, name.size() - 2).find_first_not_of("0123456789abcdefABCDEF:.") ==
           std::string_view::npos;
  }
  // A browser reads a name whose last label is a number as an address or not at all; four plain
  // numbers are enough for us.
  return name.find_first_not_of("0123456789.") == std::string_view::npos &&
         std::ranges::count(name, '.') == 3;
}

Result<std::string> only_field(const http::Request& request, std::string_view name) {
  if (request.count(name) > 1) {
    return bad_field(std::string(name), std::string(name) + " is there more than once: send one");
  }
  const std::string_view value = http::trim(request.field(name));
  if (value.size() > kCredentialBytesMax) {
    return bad_field(std::string(name), std::string(name) + " is too long for a token");
  }
  return std::string(value);
}

}  // namespace

std::vector<std::string_view> list_items(std::string_view value) {
  std::vector<std::string_view> items;
  while (!value.empty()) {
    const auto comma = std::min(value.find(','), value.size());
    if (const auto item = http::trim(value.substr(0, comma)); !item.empty()) items.push_back(item);
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  return items;
}

bool HostRules::allows_host(std::string_view host) const {
  const auto asked = split_authority(host);
  if (!asked) return false;
  if (any_address && is_address(asked->name)) return true;
  return std::ranges::any_of(names, [&](const std::string& entry) {
    const auto ours = split_authority(entry);
    return ours && http::same_name(ours->name, asked->name) &&
           (ours->port.empty() || ours->port == asked->port);
  });
}

bool HostRules::allows_origin(std::string_view origin, std::string_view host) const {
  if (std::ranges::any_of(
          origins, [&](const std::string& entry) { return http::same_name(entry, origin); })) {
    return true;
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme) && http::same_name(origin.substr(scheme.size()), host))
      return true;
  }
  return false;
}

bool is_for_our_page(const http::Request& request) {
  constexpr std::array<std::string_view, 8> kUses = {
      "script",        "style",        "worker",       "sharedworker",
      "serviceworker", "audioworklet", "paintworklet", "xslt"};
  return request.field("Sec-Fetch-Site") == "same-origin" &&
         std::ranges::find(kUses, request.field("Sec-Fetch-Dest")) != kUses.end();
}

Result<std::string> credential_of(const http::Request& request) {
  std::string bearer = TRY(only_field(request, "Authorization"));
  if (!bearer.empty()) {
    constexpr std::string_view kScheme = "Bearer ";
    if (!http::same_name(std::string_view(bearer).substr(0, kScheme.size()), kScheme)) {
      return failure(Errc::Unauthenticated,
                     "Authorization has another scheme: send \"Authorization: Bearer TOKEN\"");
    }
    bearer = http::trim(std::string_view(bearer).substr(kScheme.size()));
  }
  std::string found = std::move(bearer);
  const auto add = [&found](std::string_view more, std::string_view where) -> Result<void> {
    if (more.empty()) return {};
    if (!found.empty() && found != more) {
      return bad_field(std::string(where), "two different tokens were sent: send one");
    }
    found = more;
    return {};
  };
  const std::string key = TRY(only_field(request, "X-API-Key"));
  TRY(add(key, "X-API-Key"));
  if (!request.wants_websocket) return found;
  const std::string protocols = TRY(only_field(request, "Sec-WebSocket-Protocol"));
  for (const auto item : list_items(protocols)) {
    if (!item.starts_with(kTokenProtocol)) continue;
    TRY(add(item.substr(kTokenProtocol.size()), "Sec-WebSocket-Protocol"));
  }
  return found;
}

std::vector<std::string> offered_protocols(const http::Request& request) {
  std::vector<std::string> offered;
  for (const auto item : list_items(request.field("Sec-WebSocket-Protocol"))) {
    if (!item.starts_with(kTokenProtocol)) offered.emplace_back(item);
  }
  return offered;
}

}  // namespace caisson::doors
