// doors/shared/guard.h — who may knock: names of this server, origins of web pages, credentials.
//
// A web page can make a browser send requests to this machine. Its name, bent to our address, then
// stands in Host, so Host must be a name we have; and the page's own origin stands in Origin, which
// must be ours. Tokens come in a header, never in an address: addresses are logged and shared.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "http/field.h"
#include "http/http.h"

namespace caisson::doors {

inline constexpr std::size_t kCredentialBytesMax = 512;
inline constexpr std::string_view kSocketProtocol = "caisson";
inline constexpr std::string_view kTokenProtocol = "caisson.token.";

struct HostRules {
  std::vector<std::string> names;    // "localhost", "127.0.0.1:8080", "[::1]"; no port: any port
  std::vector<std::string> origins;  // "https://console.example"; the server's own is always one
  // A listener on every address: any address literal is ours then. Bending a name needs a name.
  bool any_address = false;

  [[nodiscard]] bool allows_host(std::string_view host) const;
  // `host` is the request's own, which has been allowed.
  [[nodiscard]] bool allows_origin(std::string_view origin, std::string_view host) const;
};

// What stood behind Bearer, in X-API-Key, or among the offered WebSocket protocols; empty without.
[[nodiscard]] Result<std::string> credential_of(const http::Request& request);

// The offered WebSocket protocols, without those that carry a token.
[[nodiscard]] std::vector<std::string> offered_protocols(const http::Request& request);

// A page of this very origin would run or apply it, as the browser says. What is a sandbox's is
// never a script or a style of ours, whatever its type: whoever got markup into a page of ours must
// not find code there, too. Pages that a sandbox shows below our paths have an origin of their own.
[[nodiscard]] bool is_for_our_page(const http::Request& request);

// The parts of a comma-separated field, trimmed; empty ones are left out.
[[nodiscard]] std::vector<std::string_view> list_items(std::string_view value);

}  // namespace caisson::doors
