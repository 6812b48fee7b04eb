#include "doors/proxy/cookies.h"

#include <algorithm>

#include "http/field.h"

namespace caisson::proxy {
namespace {

using http::same_name;
using http::trim;

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : {"__Host-", "__Secure-", "__Http-", "__Host-Http-"}) {
    if (same_name(name.substr(0, prefix.size()), prefix)) name.remove_prefix(prefix.size());
  }
  return name;
}

// The next part of a list, which loses it.
std::string_view next_part(std::string_view& list) {
  const std::size_t end = std::min(list.find(';'), list.size());
  const std::string_view part = trim(list.substr(0, end));
  list.remove_prefix(std::min(end + 1, list.size()));
  return part;
}

// What a server will take for the name. A cookie without one is sent back as its bare value, so a
// name hides there: "=name=value" comes back as "name=value".
std::string_view name_of(std::string_view pair) {
  while (pair.starts_with('=')) pair = trim(pair.substr(1));
  return trim(pair.substr(0, pair.find('=')));
}

}  // namespace

bool is_own_cookie(std::string_view name, std::span<const std::string> own) {
  const std::string_view bare = without_prefix(name);
  return std::ranges::any_of(
      own, [&](const std::string& ours) { return same_name(without_prefix(ours), bare); });
}

std::string other_cookies(std::string_view value, std::span<const std::string> own) {
  std::string out;
  while (!value.empty()) {
    const std::string_view pair = next_part(value);
    if (pair.empty() || is_own_cookie(name_of(pair), own)) continue;
    if (!out.empty()) out += "; ";
    out += pair;
  }
  return out;
}

std::optional<std::string> host_only_cookie(std::string_view value,
                                            std::span<const std::string> own) {
  const std::string_view pair = next_part(value);
  if (pair.empty() || is_own_cookie(name_of(pair), own)) return std::nullopt;
  std::string out(pair);
  while (!value.empty()) {
    const std::string_view attribute = next_part(value);
    if (attribute.empty() || same_name(trim(attribute.substr(0, attribute.find('='))), "domain")) {
      continue;
    }
    out += "; ";
    out += attribute;
  }
  return out;
}

}  // namespace caisson::proxy
