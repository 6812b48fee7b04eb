#include "doors/preview/admission.h"

#include <algorithm>

#include "control/access_token.h"
#include "doors/shared/guard.h"
#include "http/field.h"

namespace caisson::preview {
namespace {

using http::same_name;
using http::trim;

// What stands behind Bearer in the only Authorization; empty without.
std::string_view bearer_of(const http::Request& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view value = trim(request.field("Authorization"));
  if (!same_name(value.substr(0, kScheme.size()), kScheme)) return {};
  return trim(value.substr(kScheme.size()));
}

// Of the one name only. Behind TLS that is one that nobody else can plant: if the plain one counted
// there, too, a sibling could push ours out of those that are tried.
std::vector<std::string_view> own_cookies_of(const http::Request& request, std::string_view own) {
  std::vector<std::string_view> found;
  for (const auto& field : request.fields) {
    if (!same_name(field.name, "cookie")) continue;
    std::string_view list = field.value;
    while (!list.empty() && found.size() < kCookiesMax) {
      const std::size_t end = std::min(list.find(';'), list.size());
      const std::string_view pair = trim(list.substr(0, end));
      const std::size_t equals = pair.find('=');
      if (equals != std::string_view::npos && pair.substr(0, equals) == own) {
        found.push_back(pair.substr(equals + 1));
      }
      list.remove_prefix(std::min(end + 1, list.size()));
    }
  }
  return found;
}

std::optional<control::Caller> by_cookie(const Asked& asked, control::Logins& logins) {
  if (!is_from_own_page(asked.request)) return std::nullopt;
  for (const auto secret : own_cookies_of(asked.request, asked.cookie)) {
    if (auto caller = logins.find(secret, asked.host)) return std::move(*caller);
  }
  return std::nullopt;
}

// A server without tokens is its own machine's, and what a proxy passes on comes from elsewhere.
std::optional<control::Caller> by_being_here(const http::Request& request,
                                             control::Access& access) {
  if (!request.peer.local || request.count("X-Forwarded-For") > 0 || !is_from_own_page(request)) {
    return std::nullopt;
  }
  auto everybody = access.caller_of("");
  if (!everybody) return std::nullopt;
  return std::move(*everybody);
}

std::unexpected<Error> unknown() {
  return failure(Errc::Unauthenticated,
                 "this preview is private: open it from the console, or send Authorization: Bearer "
                 "TOKEN");
}

Result<Visitor> identify(const Asked& asked, control::Access& access, control::Logins& logins) {
  if (auto caller = by_cookie(asked, logins)) return Visitor{std::move(*caller), true};
  // An open server takes every token for good, so there it says nothing about who is asking.
  const bool open = access.caller_of("").has_value();
  if (!open && is_own_authorization(asked.request, access)) {
    auto caller = access.authenticate(bearer_of(asked.request), asked.request.peer.address);
    if (caller) return Visitor{std::move(*caller), true};
    if (caller.error().code != Errc::Unauthenticated) return std::unexpected(caller.error());
    return unknown();
  }
  if (auto caller = by_being_here(asked.request, access)) return Visitor{std::move(*caller), false};
  return unknown();
}

}  // namespace

bool is_own_authorization(const http::Request& request, control::Access& access) {
  // Two of them are one too many: whichever the program would take, ours might be the other.
  if (request.count("Authorization") > 1) return true;
  const std::string_view bearer = bearer_of(request);
  if (bearer.empty()) return false;
  if (bearer.starts_with(control::kTokenPrefix)) return true;
  const auto id = control::taken_over_id(bearer);
  return id && access.caller_of(*id);
}

bool is_own_origin(const http::Request& request) {
  if (request.count("Origin") == 0) return true;
  return doors::HostRules().allows_origin(request.field("Origin"), request.field("Host"));
}

bool is_from_own_page(const http::Request& request) {
  if (!is_own_origin(request)) return false;
  const std::string_view site = request.field("Sec-Fetch-Site");
  if (site.empty() || site == "same-origin" || site == "none") return true;
  const bool reads = request.method == http::Method::Get || request.method == http::Method::Head;
  return reads && !request.wants_websocket && request.field("Sec-Fetch-Mode") == "navigate";
}

Result<void> may_visit(const control::Caller& caller,
                       const std::optional<control::SandboxView>& sandbox) {
  if (!sandbox || sandbox->tenant != caller.tenant) {
    return failure(Errc::NotFound, "there is no such sandbox");
  }
  if (!caller.may(store::Scope::Use)) {
    return failure(Errc::Denied, "a preview needs a token with the scope \"use\"");
  }
  return {};
}

Result<Visitor> admit(const Asked& asked, control::Access& access, control::Logins& logins) {
  Visitor visitor;
  if (asked.sandbox && control::is_public(*asked.sandbox)) {
    visitor.caller.tenant = asked.sandbox->tenant;
    visitor.caller.actor = kPublicActor;
    visitor.caller.scopes = static_cast<std::uint8_t>(store::Scope::Use);
  } else {
    visitor = TRY(identify(asked, access, logins));
    TRY(may_visit(visitor.caller, asked.sandbox));
  }
  visitor.caller.peer = asked.request.peer.address;
  visitor.caller.request_id = asked.request.id;
  return visitor;
}

}  // namespace caisson::preview
