#include "doors/rest/router.h"

namespace caisson::rest {
namespace {

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> parts;
  if (!path.starts_with('/')) return parts;
  path.remove_prefix(1);
  for (;;) {
    const auto slash = path.find('/');
    parts.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return parts;
    path.remove_prefix(slash + 1);
  }
}

bool is_name(std::string_view part) { return part.starts_with('{'); }
bool is_tail(std::string_view part) { return part.ends_with("...}"); }

}  // namespace

std::string_view to_string(Need need) noexcept {
  switch (need) {
    case Need::None:
      return "none";
    case Need::Read:
      return "read";
    case Need::Use:
      return "use";
    case Need::Create:
      return "create";
    case Need::Admin:
      return "admin";
  }
  return "admin";
}

Router::Router(std::span<const Route> table) : table_(table) {
  compiled_.reserve(table.size());
  for (const Route& route : table) {
    Compiled compiled{split(route.pattern), false};
    if (is_tail(compiled.parts.back())) {
      compiled.parts.pop_back();
      compiled.has_tail = true;
    }
    compiled_.push_back(std::move(compiled));
  }
}

bool Router::matches(const Compiled& route, const std::vector<std::string_view>& parts) {
  if (route.has_tail ? parts.size() < route.parts.size() : parts.size() != route.parts.size()) {
    return false;
  }
  for (std::size_t i = 0; i < route.parts.size(); ++i) {
    if (is_name(route.parts[i]) ? parts[i].empty() : route.parts[i] != parts[i]) return false;
  }
  return true;
}

std::optional<Match> Router::fill(std::size_t index, const std::vector<std::string_view>& parts,
                                  std::string_view path) const {
  const Compiled& route = compiled_[index];
  Match match;
  match.route = &table_[index];
  match.index = index;
  for (std::size_t i = 0; i < route.parts.size(); ++i) {
    if (!is_name(route.parts[i])) continue;
    auto value = http::percent_decode(parts[i]);
    if (!value) return std::nullopt;
    (route.parts[i] == "{id}" ? match.id : match.part) = std::move(*value);
  }
  if (route.has_tail && parts.size() > route.parts.size()) {
    // Behind the last fixed part: its '/' and all that follows.
    const char* begin = parts[route.parts.size() - 1].data() + parts[route.parts.size() - 1].size();
    match.raw_tail = path.substr(static_cast<std::size_t>(begin - path.data()));
    auto tail = http::percent_decode(std::string_view(match.raw_tail).substr(1));
    if (!tail) return std::nullopt;
    match.tail = std::move(*tail);
  }
  return match;
}

std::expected<Match, Missed> Router::find(http::Method method, std::string_view path) const {
  const auto parts = split(path);
  Missed missed;
  for (std::size_t i = 0; i < compiled_.size(); ++i) {
    if (!matches(compiled_[i], parts)) continue;
    if (table_[i].method != method) {
      missed.allowed.push_back(table_[i].method);
      continue;
    }
    auto match = fill(i, parts, path);
    if (!match) return std::unexpected(Missed{});
    return std::move(*match);
  }
  return std::unexpected(std::move(missed));
}

}  // namespace caisson::rest
