#include "doors/daiv/routes.h"

#include <array>
#include <optional>
#include <vector>

namespace caisson::daiv {
namespace {

using enum http::Method;
using store::Scope;
using Into = BodyShape::Into;

constexpr BodyShape kPlain{};
constexpr BodyShape kArchive{kTextBytesMax, "archive", Into::Spool};
constexpr BodyShape kContent{kTextBytesMax, "content", Into::Memory};
constexpr BodyShape kStrings{kLongTextBytesMax, {}, Into::Nothing};

// clang-format off
constexpr std::array kRoutes = {
    Route{Post,   "/session/",               Scope::Create, false, true,  kPlain,   start_session},
    Route{Post,   "/session/{id}/",          Scope::Use,    false, true,  kArchive, run_commands},
    Route{Get,    "/session/{id}/",          Scope::Use,    false, false, kPlain,   show_session},
    Route{Delete, "/session/{id}/",          Scope::Use,    false, false, kPlain,   close_session},
    Route{Post,   "/session/{id}/seed/",     Scope::Use,    false, false, kPlain,   seed_session},
    Route{Put,    "/session/{id}/egress/",   Scope::Create, false, true,  kPlain,   put_egress},
    Route{Post,   "/session/{id}/fs/ls",     Scope::Use,    false, true,  kPlain,   fs_ls},
    Route{Post,   "/session/{id}/fs/read",   Scope::Use,    false, true,  kPlain,   fs_read},
    Route{Post,   "/session/{id}/fs/grep",   Scope::Use,    false, true,  kPlain,   fs_grep},
    Route{Post,   "/session/{id}/fs/glob",   Scope::Use,    false, true,  kPlain,   fs_glob},
    Route{Post,   "/session/{id}/fs/write",  Scope::Use,    false, true,  kContent, fs_write},
    Route{Post,   "/session/{id}/fs/edit",   Scope::Use,    false, true,  kStrings, fs_edit},
    Route{Post,   "/session/{id}/fs/delete", Scope::Use,    false, true,  kPlain,   fs_delete},
    Route{Get,    "/-/health/",              Scope::Read,   true,  false, kPlain,   show_health},
    Route{Get,    "/-/version/",             Scope::Read,   true,  false, kPlain,   show_version},
};
// clang-format on

// The id in `path`, empty when the pattern has none; nothing when they do not fit.
std::optional<std::string> fit(std::string_view pattern, std::string_view path) {
  constexpr std::string_view kId = "{id}";
  const std::size_t at = pattern.find(kId);
  if (at == pattern.npos) return pattern == path ? std::optional(std::string()) : std::nullopt;
  if (path.substr(0, at) != pattern.substr(0, at)) return std::nullopt;
  const std::size_t end = path.find('/', at);
  if (end == path.npos || end == at || path.substr(end) != pattern.substr(at + kId.size()))
    return std::nullopt;
  auto id = http::percent_decode(path.substr(at, end - at));
  // A slash of its own would make it another path.
  if (id && id->find('/') != std::string::npos) return std::nullopt;
  return id;
}

Match match_exactly(http::Method method, std::string_view path) {
  Match out;
  for (const Route& route : kRoutes) {
    auto id = fit(route.pattern, path);
    if (!id) continue;
    if (route.method == method) return {Match::Kind::Found, &route, *std::move(id)};
    if (out.route == nullptr) out = {Match::Kind::OtherMethod, &route, *std::move(id)};
  }
  return out;
}

}  // namespace

Match find_route(http::Method method, std::string_view path) {
  Match match = match_exactly(method, path);
  if (match.kind != Match::Kind::NotFound) return match;
  std::string other(path);
  if (other.ends_with('/')) {
    while (other.ends_with('/')) other.pop_back();
  } else {
    other += '/';
  }
  if (match_exactly(method, other).kind != Match::Kind::NotFound)
    match.kind = Match::Kind::OtherSlash;
  return match;
}

}  // namespace caisson::daiv
