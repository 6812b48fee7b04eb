// doors/preview/admission.h — who may look at a preview, and which of his credentials are ours.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/access.h"
#include "control/fleet.h"
#include "control/logins.h"
#include "http/http.h"

namespace caisson::preview {

// Behind TLS a name that no sibling host can plant; without, one that does without TLS.
inline constexpr std::string_view kSecureCookie = "__Host-caisson-preview";
inline constexpr std::string_view kPlainCookie = "caisson-preview";
// Without TLS a sibling host can plant cookies of the plain name: so many are tried.
inline constexpr std::size_t kCookiesMax = 4;

// Who looks at a public sandbox: everybody is one visitor.
inline constexpr std::string_view kPublicActor = "public";

struct Visitor {
  control::Caller caller;
  bool by_token = false;  // with a token of ours, or by its cookie: it may be withdrawn
};

// Is this how a token of ours is written, or one that was taken over from another system?
[[nodiscard]] bool is_own_authorization(const http::Request& request, control::Access& access);

// Made by a page of the host itself, or by a person who follows a link. Pages of sibling hosts can
// make a browser send the cookies of this one; they get nothing by it.
[[nodiscard]] bool is_from_own_page(const http::Request& request);
// The same for a WebSocket, whatever the credential: Origin is the host's own, or there is none.
[[nodiscard]] bool is_own_origin(const http::Request& request);

struct Asked {
  const http::Request& request;
  std::string host;         // without port: the purpose of its logins
  std::string_view cookie;  // the one name of ours that counts here
  // Nothing when there is no such sandbox.
  std::optional<control::SandboxView> sandbox;
};

// Unauthenticated, when nobody we know is asking; NotFound, when somebody is whose sandbox it is
// not, or there is none: both in the same words for a sandbox that is there and for one that is
// not. Denied without the scope; Exhausted after too many guesses.
[[nodiscard]] Result<Visitor> admit(const Asked& asked, control::Access& access,
                                    control::Logins& logins);

// Of the caller's tenant, and may he use it?
[[nodiscard]] Result<void> may_visit(const control::Caller& caller,
                                     const std::optional<control::SandboxView>& sandbox);

}  // namespace caisson::preview
