#include "doors/proxy/head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "doors/proxy/cookies.h"
#include "doors/shared/guard.h"
#include "http/hop_fields.h"

namespace caisson::proxy {
namespace {

using doors::kSocketProtocol;
using http::same_name;

// What says where a request came from is not for a client to say; the rest is written anew.
constexpr std::array kNeverInward = {"host",      "expect", "forwarded",
                                     "x-real-ip", "via",    "sec-websocket-protocol"};
// Under our own origin a cookie, a token or a name of ours would be a gift to the guest.
constexpr std::array kNotInwardUnderPath = {"x-api-key", "cookie", "origin", "referer"};

// Clear-Site-Data takes the cookies of the whole domain with it, and the others speak for whoever
// holds the certificate. The last five are written by us.
constexpr std::array kNeverOutward = {"set-cookie2",
                                      "strict-transport-security",
                                      "public-key-pins",
                                      "alt-svc",
                                      "clear-site-data",
                                      "nel",
                                      "report-to",
                                      "content-type",
                                      "date",
                                      "server",
                                      "x-request-id",
                                      "x-content-type-options"};
constexpr std::array kNotOutwardUnderPath = {"set-cookie", "service-worker-allowed",
                                             "www-authenticate", "refresh", "reporting-endpoints"};

// Orders to a proxy in front of us, such as nginx: send that file, keep this for a year.
constexpr std::array kForTheProxy = {"x-accel-",         "x-sendfile",       "x-lighttpd-",
                                     "x-litespeed-",     "x-reproxy-",       "surrogate-",
                                     "x-proxy-internal", "cdn-cache-control"};

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::ranges::any_of(names, [&](const char* own) { return same_name(own, name); });
}

bool has_prefix(std::string_view name, std::string_view prefix) {
  return same_name(name.substr(0, prefix.size()), prefix);
}

bool is_for_the_proxy(std::string_view name) {
  return std::ranges::any_of(kForTheProxy, [&](const char* own) { return has_prefix(name, own); });
}

bool is_clean_target(std::string_view text) {
  return std::ranges::none_of(text, [](char c) {
    return static_cast<unsigned char>(c) <= 0x20U || static_cast<unsigned char>(c) == 0x7FU;
  });
}

bool is_own_host(const Passage& passage) { return passage.place == Place::OwnHost; }

void append(std::string& head, std::string_view name, std::string_view value) {
  if (!http::is_field_name(name) || !http::is_field_value(value)) return;
  head += name;
  head += ": ";
  head += value;
  head += "\r\n";
}

bool passes_inward(std::string_view name, const Passage& passage) {
  if (is_one_of(kNeverInward, name) || has_prefix(name, "x-forwarded-")) return false;
  if (same_name(name, "authorization")) return !passage.own_authorization;
  if (is_own_host(passage)) return true;
  return !is_one_of(kNotInwardUnderPath, name) && !has_prefix(name, "sec-fetch-");
}

// A token of ours has no business in this field on a host of a program; whoever put it there by
// mistake must not pay for it.
bool is_token_of_ours(std::string_view name, std::string_view value) {
  return same_name(name, "x-api-key") && http::trim(value).starts_with("cais_");
}

bool is_address_list(std::string_view text) {
  return !text.empty() && text.size() <= kForwardedBytesMax &&
         text.find_first_not_of("0123456789abcdefABCDEF.:[], ") == std::string_view::npos;
}

// Who asks, by which name, and how. A peer of this machine is the proxy in front of us, which
// knows better than we do who its peer was; every other one speaks for himself only.
void append_forwarded(std::string& head, const http::Request& request, const Passage& passage) {
  const bool trusted = request.peer.local;
  std::string_view from = request.peer.address;
  if (from == "unix") from = "127.0.0.1";
  std::string_view scheme = passage.scheme;
  if (trusted) {
    const auto said = http::trim(request.field("X-Forwarded-For"));
    if (request.count("X-Forwarded-For") == 1 && is_address_list(said)) from = said;
    const auto how = http::trim(request.field("X-Forwarded-Proto"));
    if (how == "http" || how == "https") scheme = how;
  }
  append(head, "X-Forwarded-For", from);
  append(head, "X-Forwarded-Host", passage.host);
  append(head, "X-Forwarded-Proto", scheme);
}

// Fields of the request that pass, those included that are written anew for the place.
void append_fields(std::string& head, const http::Request& request, const Passage& passage) {
  const bool own_host = is_own_host(passage);
  const http::HopFields hop(request.fields);
  for (const auto& field : request.fields) {
    if (hop.drops(field.name) || !passes_inward(field.name, passage)) continue;
    if (is_token_of_ours(field.name, field.value)) continue;
    if (same_name(field.name, "cookie")) {
      const std::string rest = other_cookies(field.value, passage.own_cookies);
      if (!rest.empty()) append(head, field.name, rest);
      continue;
    }
    append(head, field.name, field.value);
  }
  if (own_host) {
    append_forwarded(head, request, passage);
  } else if (request.count("Origin") > 0) {
    // Servers for developers compare Origin with the host that they take themselves for.
    append(head, "Origin", fmt::format("http://localhost:{}", passage.port));
  }
}

void append_handshake(std::string& head, const http::Request& request, const Passage& passage) {
  const auto protocols = doors::offered_protocols(request);
  std::vector<std::string_view> theirs;
  for (const auto& protocol : protocols) {
    if (is_own_host(passage) || protocol != kSocketProtocol) theirs.emplace_back(protocol);
  }
  if (!theirs.empty()) {
    append(head, "Sec-WebSocket-Protocol", fmt::format("{}", fmt::join(theirs, ", ")));
  }
  head += "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
}

// What follows "http://HOST" of one of the names that the program may take itself for.
std::optional<std::string_view> behind_host(std::string_view location, std::string_view origin) {
  if (!has_prefix(location, origin)) return std::nullopt;
  const std::string_view rest = location.substr(origin.size());
  if (rest.empty() || rest.front() == '/' || rest.front() == '?') return rest;
  return std::nullopt;
}

std::string moved(std::string_view location, const Passage& passage) {
  const std::string prefix = is_own_host(passage) ? std::string() : passage.prefix;
  const auto here = [&](std::string_view rest) {
    const bool rooted = rest.starts_with('/') || !is_own_host(passage);
    return prefix + (rooted ? "" : "/") + std::string(rest);
  };
  // Without a prefix, "//x" would name another host.
  const auto is_path = [&](std::string_view rest) {
    return !is_own_host(passage) || !rest.starts_with("//");
  };
  for (const std::string_view host : {"localhost", "127.0.0.1", "0.0.0.0", "[::1]"}) {
    const auto rest = behind_host(location, fmt::format("http://{}:{}", host, passage.port));
    if (rest && is_path(*rest)) return here(*rest);
  }
  if (is_own_host(passage)) {
    // A program that looks at Host but not at X-Forwarded-Proto would lead out of TLS.
    const auto rest = behind_host(location, "http://" + passage.host);
    if (rest && is_path(*rest)) return here(*rest);
    return std::string(location);
  }
  if (location.starts_with('/') && !location.starts_with("//")) {
    return prefix + std::string(location);
  }
  return std::string(location);
}

bool passes_outward(std::string_view name, const Passage& passage) {
  if (is_one_of(kNeverOutward, name) || is_for_the_proxy(name)) return false;
  if (is_own_host(passage)) return true;
  return !is_one_of(kNotOutwardUnderPath, name) && !has_prefix(name, "access-control-");
}

}  // namespace

Result<std::string> upstream_head(const http::Request& request, const Passage& passage) {
  if (!is_clean_target(passage.raw_tail) || !http::is_field_name(request.method_text) ||
      !http::is_field_value(passage.host)) {
    return failure(Errc::InvalidArgument, "the address holds a character that HTTP does not allow");
  }
  std::string head = request.method_text + ' ';
  if (!passage.raw_tail.starts_with('/')) head += '/';
  head += passage.raw_tail;
  head += " HTTP/1.1\r\nHost: ";
  head += is_own_host(passage) ? passage.host : fmt::format("localhost:{}", passage.port);
  head += "\r\n";
  append_fields(head, request, passage);
  if (request.wants_websocket) {
    append_handshake(head, request, passage);
    return head;
  }
  if (request.has_body) {
    head += request.content_length ? fmt::format("Content-Length: {}\r\n", *request.content_length)
                                   : std::string("Transfer-Encoding: chunked\r\n");
  }
  head += "Connection: close\r\n\r\n";
  return head;
}

std::vector<http::Field> answer_fields(const std::vector<http::Field>& fields,
                                       const Passage& passage) {
  std::vector<http::Field> out;
  const auto add = [&out](std::string_view name, std::string value) {
    for (auto& field : out) {
      if (!same_name(field.name, name)) continue;
      field.value += ", " + value;
      return;
    }
    out.push_back({std::string(name), std::move(value)});
  };
  const http::HopFields hop(fields);
  for (const auto& field : fields) {
    if (hop.drops(field.name) || !passes_outward(field.name, passage)) continue;
    if (same_name(field.name, "set-cookie")) {
      auto cookie = host_only_cookie(field.value, passage.own_cookies);
      if (cookie) out.push_back({"Set-Cookie", std::move(*cookie)});
    } else if (same_name(field.name, "location")) {
      add("Location", moved(field.value, passage));
    } else {
      add(field.name, field.value);
    }
  }
  if (!is_own_host(passage)) add("Content-Security-Policy", std::string(kGuestPagePolicy));
  return out;
}

std::vector<http::Field> switch_fields(const std::vector<http::Field>& fields,
                                       const http::Request& request, const Passage& passage) {
  std::vector<http::Field> out{{"Upgrade", "websocket"}, {"Connection", "Upgrade"}};
  bool chosen = false;
  for (const auto& field : fields) {
    if (!has_prefix(field.name, "sec-websocket-")) continue;
    chosen = chosen || same_name(field.name, "sec-websocket-protocol");
    out.push_back(field);
  }
  if (is_own_host(passage)) return out;
  const auto offered = doors::offered_protocols(request);
  if (!chosen && std::ranges::find(offered, kSocketProtocol) != offered.end()) {
    out.push_back({"Sec-WebSocket-Protocol", std::string(kSocketProtocol)});
  }
  return out;
}

}  // namespace caisson::proxy
