// control/record_members.h — the members of a record's JSON, one after the other.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::control {

namespace json = boost::json;

inline json::array array_of(const std::vector<std::string>& texts) {
  json::array out;
  for (const std::string& text : texts) out.emplace_back(text);
  return out;
}

inline json::object object_of(const std::map<std::string, std::string>& texts) {
  json::object out;
  for (const auto& [name, value] : texts) out[name] = value;
  return out;
}

// Reads one member after the other; the first that is not what it should be is remembered.
class Members {
 public:
  explicit Members(const json::object& object) : object_(object) {}

  std::string text(std::string_view name) {
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || !at->is_string()) return fail(name), "";
    return std::string(at->get_string());
  }
  std::vector<std::string> texts(std::string_view name) {
    std::vector<std::string> out;
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || !at->is_array()) return fail(name), out;
    for (const json::value& one : at->get_array()) {
      if (!one.is_string()) return fail(name), out;
      out.emplace_back(one.get_string());
    }
    return out;
  }
  std::map<std::string, std::string> map(std::string_view name) {
    std::map<std::string, std::string> out;
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || !at->is_object()) return fail(name), out;
    for (const auto& [key, value] : at->get_object()) {
      if (!value.is_string()) return fail(name), out;
      out.emplace(key, value.get_string());
    }
    return out;
  }
  std::optional<std::int64_t> whole(std::string_view name) {
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || at->is_null()) return std::nullopt;
    boost::system::error_code wrong;
    const auto value = at->to_number<std::int64_t>(wrong);
    if (wrong) return fail(name), std::nullopt;
    return value;
  }
  std::uint64_t count(std::string_view name) {
    const json::value* at = object_.if_contains(name);
    if (at == nullptr) return 0;
    boost::system::error_code wrong;
    const auto value = at->to_number<std::uint64_t>(wrong);
    if (wrong) return fail(name), 0;
    return value;
  }
  // Empty where there is none.
  std::string maybe_text(std::string_view name) {
    return object_.if_contains(name) == nullptr ? std::string() : text(name);
  }
  std::vector<std::string> maybe_texts(std::string_view name) {
    return object_.if_contains(name) == nullptr ? std::vector<std::string>() : texts(name);
  }
  bool flag(std::string_view name) {
    const json::value* at = object_.if_contains(name);
    if (at == nullptr) return false;
    if (!at->is_bool()) return fail(name), false;
    return at->get_bool();
  }
  std::optional<double> number(std::string_view name) {
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || at->is_null()) return std::nullopt;
    boost::system::error_code wrong;
    const double value = at->to_number<double>(wrong);
    if (wrong) return fail(name), std::nullopt;
    return value;
  }

  [[nodiscard]] const std::string& wrong() const { return wrong_; }
  void fail(std::string_view name) {
    if (wrong_.empty()) wrong_ = name;
  }

 private:
  const json::object& object_;
  std::string wrong_;
};

}  // namespace caisson::control
