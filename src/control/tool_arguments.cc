#include "control/tool_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "control/text.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

std::string_view kind_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
    default:
      return "a number";
  }
}

std::unexpected<Error> wrong(const json::value& value, std::string_view name,
                             std::string_view want) {
  return bad_field(argument_field(name),
                   fmt::format("{}: is {}, want {}", argument_field(name), kind_of(value), want));
}

Result<std::string> as_text(const json::value& value, std::string_view name,
                            std::size_t bytes_max) {
  if (!value.is_string()) return wrong(value, name, "a string");
  const json::string& text = value.get_string();
  if (text.size() > bytes_max)
    return std::unexpected(Error{Errc::TooLarge,
                                 fmt::format("{}: has {} bytes, want at most {}",
                                             argument_field(name), text.size(), bytes_max),
                                 0, argument_field(name)});
  return std::string(text);
}

}  // namespace

std::string argument_field(std::string_view name) { return "arguments." + cut_text(name, 64); }

const json::value* ToolArguments::look(std::string_view name) {
  known_.push_back(name);
  const json::value* at = object_.if_contains(name);
  return at == nullptr || at->is_null() ? nullptr : at;
}

Result<std::string> ToolArguments::text(std::string_view name, std::size_t bytes_max) {
  const json::value* at = look(name);
  if (at == nullptr) return bad_field(argument_field(name), argument_field(name) + ": is missing");
  return as_text(*at, name, bytes_max);
}

Result<std::optional<std::string>> ToolArguments::text_or_none(std::string_view name,
                                                               std::size_t bytes_max) {
  const json::value* at = look(name);
  if (at == nullptr) return std::nullopt;
  return TRY(as_text(*at, name, bytes_max));
}

Result<std::optional<std::vector<std::string>>> ToolArguments::texts_or_none(
    std::string_view name, std::size_t count_max, std::size_t bytes_max) {
  const json::value* at = look(name);
  if (at == nullptr) return std::nullopt;
  if (!at->is_array()) return wrong(*at, name, "an array of strings");
  const json::array& list = at->get_array();
  if (list.size() > count_max)
    return bad_field(argument_field(name),
                     fmt::format("{}: has {} items, want at most {}", argument_field(name),
                                 list.size(), count_max));
  std::vector<std::string> out;
  for (const json::value& one : list) out.push_back(TRY(as_text(one, name, bytes_max)));
  return out;
}

Result<bool> ToolArguments::flag(std::string_view name) {
  const json::value* at = look(name);
  if (at == nullptr) return false;
  if (!at->is_bool()) return wrong(*at, name, "true or false");
  return at->get_bool();
}

Result<std::optional<double>> ToolArguments::number(std::string_view name) {
  const json::value* at = look(name);
  if (at == nullptr) return std::nullopt;
  boost::system::error_code failed;
  const double value = at->to_number<double>(failed);
  if (failed || !std::isfinite(value)) return wrong(*at, name, "a number");
  return value;
}

Result<std::int64_t> ToolArguments::whole(std::string_view name, std::int64_t otherwise,
                                          std::int64_t min, std::int64_t max) {
  const json::value* at = look(name);
  if (at == nullptr) return otherwise;
  boost::system::error_code failed;
  const auto value = at->to_number<std::int64_t>(failed);
  if (failed || value < min || value > max)
    return bad_field(argument_field(name), fmt::format("{}: want a whole number from {} to {}",
                                                       argument_field(name), min, max));
  return value;
}

Result<std::vector<std::pair<std::string, std::string>>> ToolArguments::pairs(
    std::string_view name) {
  std::vector<std::pair<std::string, std::string>> out;
  const json::value* at = look(name);
  if (at == nullptr) return out;
  if (!at->is_object()) return wrong(*at, name, "an object of strings");
  for (const auto& [key, value] : at->get_object()) {
    if (!value.is_string())
      return wrong(value, std::string(name) + "." + std::string(key), "a string");
    out.emplace_back(key, value.get_string());
  }
  return out;
}

Result<void> ToolArguments::finish() const {
  for (const auto& [key, value] : object_) {
    if (std::ranges::find(known_, std::string_view(key)) != known_.end()) continue;
    std::string names;
    for (const std::string_view name : known_) names.append(names.empty() ? "" : ", ").append(name);
    return bad_field(argument_field(key),
                     fmt::format("{}: is not an argument of this tool; it takes: {}",
                                 argument_field(key), names));
  }
  return {};
}

}  // namespace caisson::control
