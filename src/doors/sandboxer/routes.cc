#include "doors/sandboxer/routes.h"

#include <algorithm>
#include <array>
#include <optional>

namespace caisson::sandboxer {
namespace {

using enum http::Method;
using store::Scope;
constexpr bool kJson = true;
constexpr bool kPlain = false;
constexpr bool kSocket = true;

// clang-format off
constexpr std::array kRoutes = {
    Route{Get,    "/sandboxes",                       Scope::Read,   Who::Known,   kPlain, false, list_sandboxes},
    Route{Post,   "/sandboxes",                       Scope::Create, Who::Known,   kJson,  false, create_sandbox},
    Route{Get,    "/sandboxes/{id}",                  Scope::Read,   Who::Known,   kPlain, false, show_sandbox},
    Route{Patch,  "/sandboxes/{id}",                  Scope::Use,    Who::Known,   kJson,  false, change_sandbox},
    Route{Delete, "/sandboxes/{id}",                  Scope::Use,    Who::Known,   kPlain, false, delete_sandbox},
    Route{Post,   "/sandboxes/{id}/fork",             Scope::Create, Who::Known,   kJson,  false, fork_sandbox},
    Route{Post,   "/sandboxes/{id}/coalesce/{final}", Scope::Use,    Who::Known,   kPlain, false, coalesce_sandboxes},
    Route{Put,    "/sandboxes/{id}/pause",            Scope::Use,    Who::Known,   kPlain, false, pause_sandbox},
    Route{Delete, "/sandboxes/{id}/pause",            Scope::Use,    Who::Known,   kPlain, false, unpause_sandbox},
    Route{Post,   "/sandboxes/{id}/execute",          Scope::Use,    Who::Known,   kJson,  false, execute_code},
    Route{Get,    "/sandboxes/{id}/logs",             Scope::Read,   Who::Known,   kPlain, false, show_logs},
    Route{Get,    "/sandboxes/{id}/tree",             Scope::Read,   Who::Known,   kPlain, false, show_tree},
    Route{Get,    "/sandboxes/{id}/execution-logs",   Scope::Read,   Who::Known,   kPlain, false, show_execution_logs},
    Route{Get,    "/sandboxes/{id}/command-executions", Scope::Read, Who::Known,   kPlain, false, show_executions},
    Route{Get,    "/sandboxes/{id}/command-executions/{final}/logs",
                                                      Scope::Read,   Who::Known,   kPlain, false, show_execution},
    Route{Get,    "/sandboxes/{id}/files/{path}",     Scope::Use,    Who::Known,   kPlain, false, show_file},
    Route{Post,   "/sandboxes/{id}/files/{path}",     Scope::Use,    Who::Known,   kPlain, false, upload_files},
    Route{Get,    "/sandboxes/{id}/attach",           Scope::Use,    Who::Known,   kPlain, kSocket, attach_terminal},
    Route{Other,  "/sandboxes/{id}/proxy/{path}",     Scope::Use,    Who::Viewer,  kPlain, false, pass_on},
    Route{Get,    "/events",                          Scope::Read,   Who::Known,   kPlain, false, stream_events},
    Route{Post,   "/auth/token",                      Scope::Read,   Who::Anybody, kJson,  false, log_in},
    Route{Post,   "/auth/logout",                     Scope::Read,   Who::Anybody, kPlain, false, log_out},
    Route{Get,    "/auth/me",                         Scope::Read,   Who::Known,   kPlain, false, show_me},
    Route{Get,    "/auth/github",                     Scope::Read,   Who::Anybody, kPlain, false, refuse_github},
    Route{Get,    "/auth/github/callback",            Scope::Read,   Who::Anybody, kPlain, false, refuse_github},
};
// clang-format on

constexpr std::string_view kProxyMethods = "GET, POST, PUT, DELETE, PATCH, OPTIONS, HEAD";

// One segment of a path, decoded. A slash of its own would make it another path.
std::optional<std::string> segment(std::string_view text) {
  auto decoded = http::percent_decode(text);
  if (decoded && (decoded->empty() || decoded->find('/') != std::string::npos)) return std::nullopt;
  return decoded;
}

bool fit(std::string_view pattern, std::string_view path, Match& match) {
  while (!pattern.empty()) {
    if (pattern.front() != '{') {
      const std::size_t end = std::min(pattern.find('{'), pattern.size());
      if (!path.starts_with(pattern.substr(0, end))) return false;
      path.remove_prefix(end);
      pattern.remove_prefix(end);
      continue;
    }
    if (pattern == "{path}") {
      match.tail = path;
      return true;
    }
    const std::size_t end = std::min(path.find('/'), path.size());
    auto part = segment(path.substr(0, end));
    if (!part) return false;
    (pattern.starts_with("{id}") ? match.id : match.second) = *std::move(part);
    path.remove_prefix(end);
    pattern.remove_prefix(pattern.find('}') + 1);
  }
  return path.empty();
}

bool takes(const Route& route, http::Method method, bool websocket) {
  if (route.websocket) return websocket;
  return route.method == Other ? method != Other : route.method == method;
}

Match match_exactly(http::Method method, std::string_view path, bool websocket) {
  Match out;
  for (const Route& route : kRoutes) {
    Match match;
    if (!fit(route.pattern, path, match)) continue;
    if (takes(route, method, websocket)) {
      match.kind = Match::Kind::Found;
      match.route = &route;
      return match;
    }
    if (route.websocket) continue;
    out.kind = Match::Kind::OtherMethod;
    if (!out.allow.empty()) out.allow += ", ";
    out.allow += route.method == Other ? kProxyMethods : http::to_string(route.method);
  }
  return out;
}

}  // namespace

Match find_route(http::Method method, std::string_view path, bool websocket) {
  Match match = match_exactly(method, path, websocket);
  if (match.kind != Match::Kind::NotFound) return match;
  std::string other(path);
  if (other.ends_with('/')) {
    while (other.ends_with('/')) other.pop_back();
  } else {
    other += '/';
  }
  if (match_exactly(method, other, websocket).kind != Match::Kind::NotFound)
    match.kind = Match::Kind::OtherSlash;
  return match;
}

bool is_protected(std::string_view path) {
  constexpr std::array<std::string_view, 4> kPrefixes = {"/sandboxes", "/volumes", "/events",
                                                         "/auth/me"};
  return std::ranges::any_of(kPrefixes, [path](auto one) { return path.starts_with(one); });
}

}  // namespace caisson::sandboxer
