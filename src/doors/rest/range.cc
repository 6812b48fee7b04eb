#include "doors/rest/range.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "doors/rest/text.h"
#include "doors/shared/guard.h"

namespace caisson::rest {
namespace {

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view last_part(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

RangeChoice choose_range(std::string_view field, std::uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  const RangeChoice whole;
  const RangeChoice impossible{RangeKind::Impossible, {}};
  if (!http::same_name(field.substr(0, kUnit.size()), kUnit)) return whole;
  const std::string_view text = http::trim(field.substr(kUnit.size()));
  const auto dash = text.find('-');
  if (dash == std::string_view::npos || text.find(',') != std::string_view::npos) return whole;
  const auto last = number(text.substr(dash + 1));
  if (dash == 0) {  // so many bytes at the end
    if (!last) return whole;
    if (*last == 0 || size == 0) return impossible;
    return {RangeKind::Part, {size - std::min(*last, size), size - 1}};
  }
  const auto first = number(text.substr(0, dash));
  if (!first || (!last && dash + 1 != text.size()) || (last && *last < *first)) return whole;
  if (*first >= size) return impossible;
  return {RangeKind::Part, {*first, std::min(last.value_or(size - 1), size - 1)}};
}

bool etag_listed(std::string_view list, std::string_view etag) {
  if (http::trim(list) == "*") return true;
  for (auto item : doors::list_items(list)) {
    if (item.starts_with("W/")) item.remove_prefix(2);
    if (!etag.empty() && item == etag) return true;
  }
  return false;
}

std::string_view safe_type(std::string_view path) {
  // Neither HTML nor SVG nor XML: those run scripts, and would run them as ours.
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {"txt", "text/plain; charset=utf-8"},
      {"log", "text/plain; charset=utf-8"},
      {"md", "text/plain; charset=utf-8"},
      {"csv", "text/plain; charset=utf-8"},
      {"json", "application/json"},
      {"png", "image/png"},
      {"jpg", "image/jpeg"},
      {"jpeg", "image/jpeg"},
      {"gif", "image/gif"},
      {"webp", "image/webp"},
      {"pdf", "application/pdf"}};
  const std::string_view name = last_part(path);
  const auto dot = name.rfind('.');
  if (dot != std::string_view::npos) {
    for (const auto& [extension, type] : kTypes) {
      if (http::same_name(name.substr(dot + 1), extension)) return type;
    }
  }
  return "application/octet-stream";
}

std::string disposition(std::string_view path, std::string_view suffix) {
  std::string name = valid_utf8(last_part(path));
  if (name.empty() || name == ".") name = "workspace";
  name += suffix;
  return "attachment; filename*=UTF-8''" + percent_encode(name);
}

}  // namespace caisson::rest
