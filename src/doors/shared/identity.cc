#include "doors/shared/identity.h"

#include <fmt/format.h>

#include <algorithm>

namespace caisson::doors {
namespace {

std::string_view cookie_name(const http::Request& request) {
  return is_secure(request) ? kSecureLoginCookie : kLoginCookie;
}

bool only_reads(const http::Request& request) {
  if (request.wants_websocket) return false;
  return request.method == http::Method::Get || request.method == http::Method::Head;
}

// A navigation shows its answer to the person and to no page.
bool is_navigation(const http::Request& request) {
  return request.method == http::Method::Get && request.field("Sec-Fetch-Mode") == "navigate";
}

// Origin, where it is, has been found to be ours.
Result<void> of_our_page(const http::Request& request) {
  const std::string_view site = request.field("Sec-Fetch-Site");
  if (site == "cross-site" || site == "same-site") {
    if (is_navigation(request)) return {};
    return failure(Errc::Denied, "a cookie is good for pages of this server only; this request " +
                                     std::string("comes from another: use a token"));
  }
  if (is_for_our_page(request)) {
    return failure(Errc::Denied, "the API has no scripts and styles for pages of this server");
  }
  if (only_reads(request) || site == "same-origin" || request.count("Origin") == 1) return {};
  return failure(Errc::Denied,
                 "a change by cookie must say in Origin which page it comes from: send that, or "
                 "a token as \"Authorization: Bearer TOKEN\"");
}

std::string set_cookie(const http::Request& request, std::string_view value, std::int64_t age) {
  const bool secure = is_secure(request);
  return fmt::format("{}={}; Path=/; HttpOnly;{} SameSite=Strict; Max-Age={}", cookie_name(request),
                     value, secure ? " Secure;" : "", age);
}

}  // namespace

std::optional<std::string> cookie_of(const http::Request& request, std::string_view name) {
  std::optional<std::string> found;
  for (const http::Field& field : request.fields) {
    if (!http::same_name(field.name, "Cookie")) continue;
    std::string_view rest = field.value;
    while (!rest.empty()) {
      const auto end = std::min(rest.find(';'), rest.size());
      const std::string_view pair = http::trim(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const auto equals = pair.find('=');
      if (equals == std::string_view::npos || pair.substr(0, equals) != name) continue;
      if (found || pair.size() - equals - 1 > kCookieBytesMax) return std::nullopt;
      found = std::string(pair.substr(equals + 1));
    }
  }
  return found;
}

bool is_secure(const http::Request& request) {
  return request.peer.local && http::same_name(request.field("X-Forwarded-Proto"), "https");
}

std::string login_cookie(const http::Request& request, std::string_view secret, seconds life) {
  return set_cookie(request, secret, life.count());
}

std::string logout_cookie(const http::Request& request) { return set_cookie(request, "", 0); }

Result<Identity> identify(const http::Request& request, control::Access& access,
                          control::Logins& logins) {
  Identity who;
  const std::string credential = TRY(credential_of(request));
  const auto cookie = credential.empty() ? cookie_of(request, cookie_name(request)) : std::nullopt;
  if (cookie && !cookie->empty()) {
    TRY(of_our_page(request));
    who.caller = TRY(logins.find(*cookie, control::kConsolePurpose));
    who.login = *cookie;
  } else {
    who.caller = TRY(access.authenticate(credential, request.peer.address));
  }
  who.caller.peer = request.peer.address;
  who.caller.request_id = request.id;
  return who;
}

}  // namespace caisson::doors
