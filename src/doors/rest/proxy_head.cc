#include "doors/rest/proxy_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doors/rest/guard.h"
#include "http/hop_fields.h"

namespace caisson::rest {
namespace {

using http::same_name;

// A token or a cookie of ours would be a gift to the guest. What says where a request came from is
// not for a client to say.
constexpr std::array kNotForTheGuest = {"authorization",
                                        "x-api-key",
                                        "cookie",
                                        "host",
                                        "expect",
                                        "forwarded",
                                        "origin",
                                        "referer",
                                        "x-real-ip",
                                        "via",
                                        "sec-websocket-protocol"};

constexpr std::array kNotForTheClient = {"set-cookie",
                                         "set-cookie2",
                                         "strict-transport-security",
                                         "public-key-pins",
                                         "alt-svc",
                                         "clear-site-data",
                                         "service-worker-allowed",
                                         "content-security-policy",
                                         "content-type",
                                         "date",
                                         "www-authenticate",
                                         "x-request-id",
                                         "refresh",
                                         "reporting-endpoints",
                                         "report-to",
                                         "nel",
                                         "location",
                                         "x-content-type-options"};

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

void append(std::string& head, std::string_view name, std::string_view value) {
  if (!http::is_field_name(name) || !http::is_field_value(value)) return;
  head += name;
  head += ": ";
  head += value;
  head += "\r\n";
}

// Behind "http://localhost:8000", which is what the program takes itself for.
std::string moved(std::string_view location, std::uint16_t port, std::string_view prefix) {
  for (const std::string_view host : {"localhost", "127.0.0.1"}) {
    const std::string own = fmt::format("http://{}:{}", host, port);
    if (!has_prefix(location, own)) continue;
    const std::string_view rest = location.substr(own.size());
    if (rest.empty() || rest.front() == '/') return std::string(prefix) + std::string(rest);
  }
  if (location.starts_with('/') && !location.starts_with("//")) {
    return std::string(prefix) + std::string(location);
  }
  return std::string(location);
}

}  // namespace

Result<std::string> upstream_head(const http::Request& request, const Upstream& upstream) {
  if (!is_clean_target(upstream.raw_tail) || !is_clean_target(request.query) ||
      !http::is_field_name(request.method_text)) {
    return failure(Errc::InvalidArgument, "the address holds a character that HTTP does not allow");
  }
  std::string head = request.method_text + ' ';
  head += upstream.raw_tail.empty() ? std::string_view("/") : upstream.raw_tail;
  if (!request.query.empty()) head += '?' + request.query;
  head += fmt::format(" HTTP/1.1\r\nHost: localhost:{}\r\n", upstream.port);
  const http::HopFields hop(request.fields);
  for (const auto& field : request.fields) {
    if (hop.drops(field.name) || is_one_of(kNotForTheGuest, field.name) ||
        has_prefix(field.name, "x-forwarded-") || has_prefix(field.name, "sec-fetch-")) {
      continue;
    }
    append(head, field.name, field.value);
  }
  // Servers for developers compare Origin with the host that they take themselves for.
  if (request.count("Origin") > 0) {
    append(head, "Origin", fmt::format("http://localhost:{}", upstream.port));
  }
  if (upstream.websocket) {
    const auto protocols = offered_protocols(request);
    std::vector<std::string_view> theirs;
    for (const auto& protocol : protocols) {
      if (protocol != kSocketProtocol) theirs.emplace_back(protocol);
    }
    if (!theirs.empty()) {
      append(head, "Sec-WebSocket-Protocol", fmt::format("{}", fmt::join(theirs, ", ")));
    }
    head += "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    return head;
  }
  if (request.has_body) {
    head += request.content_length ? fmt::format("Content-Length: {}\r\n", *request.content_length)
                                   : std::string("Transfer-Encoding: chunked\r\n");
  }
  head += "Connection: close\r\n\r\n";
  return head;
}

std::vector<http::Field> answer_fields(const std::vector<http::Field>& fields, std::uint16_t port,
                                       std::string_view prefix) {
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
    if (same_name(field.name, "location")) add("Location", moved(field.value, port, prefix));
    if (same_name(field.name, "content-security-policy")) add(field.name, field.value);
    if (hop.drops(field.name) || is_one_of(kNotForTheClient, field.name) ||
        has_prefix(field.name, "access-control-") || is_for_the_proxy(field.name)) {
      continue;
    }
    add(field.name, field.value);
  }
  add("Content-Security-Policy", std::string(kGuestPagePolicy));
  return out;
}

std::vector<http::Field> switch_fields(const std::vector<http::Field>& fields,
                                       const http::Request& request) {
  std::vector<http::Field> out{{"Upgrade", "websocket"}, {"Connection", "Upgrade"}};
  bool chosen = false;
  for (const auto& field : fields) {
    if (!has_prefix(field.name, "sec-websocket-")) continue;
    chosen = chosen || same_name(field.name, "sec-websocket-protocol");
    out.push_back(field);
  }
  const auto offered = offered_protocols(request);
  if (!chosen && std::ranges::find(offered, kSocketProtocol) != offered.end()) {
    out.push_back({"Sec-WebSocket-Protocol", std::string(kSocketProtocol)});
  }
  return out;
}

}  // namespace caisson::rest
