// doors/shared/identity.h — who is asking: a token in a header, or the cookie of a login.
//
// A browser sends a cookie with whatever any page makes it ask for. So a cookie alone opens nothing
// but reading: a change, and a WebSocket, must come from a page of ours, which the browser says in
// Origin. That header cannot be forged by a page, and pages of sandboxes have other origins.
// Behind TLS the cookie's name begins with "__Host-": no page of a sibling host can plant one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "control/access.h"
#include "control/logins.h"
#include "doors/shared/guard.h"
#include "http/http.h"

namespace caisson::doors {

inline constexpr std::string_view kLoginCookie = "SID";
inline constexpr std::string_view kSecureLoginCookie = "__Host-SID";
inline constexpr std::size_t kCookieBytesMax = 512;  // of one that is ours

struct Identity {
  control::Caller caller;
  std::string login;  // the secret of the cookie by which he is known; empty with a token
};

// Unauthenticated, Denied (a page of somebody else), Exhausted (too many guesses), InvalidArgument.
// Host and Origin have been judged before. Caller.peer and .request_id are set.
[[nodiscard]] Result<Identity> identify(const http::Request& request, control::Access& access,
                                        control::Logins& logins);

// The only cookie of that name; nothing when there is none, or more than one.
[[nodiscard]] std::optional<std::string> cookie_of(const http::Request& request,
                                                   std::string_view name);

// TLS ends at a proxy of this machine, which says so.
[[nodiscard]] bool is_secure(const http::Request& request);

// Values of Set-Cookie.
[[nodiscard]] std::string login_cookie(const http::Request& request, std::string_view secret,
                                       seconds life);
[[nodiscard]] std::string logout_cookie(const http::Request& request);

}  // namespace caisson::doors
