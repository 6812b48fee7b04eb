#include "doors/shared/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/string.hpp>
#include <charconv>
#include <cmath>

#include "doors/shared/json_text.h"
#include "http/field.h"

namespace caisson::doors {

namespace json = boost::json;

namespace {

constexpr double kIntegerLimit = 9.2e18;  // beyond it a number is as good as this one

json::array below(json::array loc, json::value part) {
  loc.push_back(std::move(part));
  return loc;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::optional<bool> flag_word(std::string_view word) {
  constexpr std::array<std::string_view, 6> kTrue = {"true", "t", "yes", "y", "on", "1"};
  constexpr std::array<std::string_view, 6> kFalse = {"false", "f", "no", "n", "off", "0"};
  const auto same = [word](std::string_view known) { return http::same_name(word, known); };
  if (std::ranges::any_of(kTrue, same)) return true;
  if (std::ranges::any_of(kFalse, same)) return false;
  return std::nullopt;
}

// A number of JSON as a double; nothing when it is none.
std::optional<double> as_double(const json::value& value) {
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  if (value.is_double()) return value.get_double();
  if (value.is_bool()) return value.get_bool() ? 1.0 : 0.0;
  return std::nullopt;
}

std::optional<double> parse_double(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

std::int64_t saturated(double number) {
  return static_cast<std::int64_t>(std::clamp(number, -kIntegerLimit, kIntegerLimit));
}

// A whole number in a string: "5", " 5 ", "5.0", "-5".
std::optional<std::int64_t> parse_integer(std::string_view text) {
  text = trimmed(text);
  const std::size_t dot = text.find('.');
  if (dot != text.npos) {
    const std::string_view zeros = text.substr(dot + 1);
    if (zeros.empty() || zeros.find_first_not_of('0') != zeros.npos) return std::nullopt;
    text = text.substr(0, dot);
  }
  const auto number = parse_double(text);
  constexpr std::string_view kDigits = "0123456789";
  const std::string_view digits =
      text.substr(text.starts_with('-') || text.starts_with('+') ? 1 : 0);
  if (!number || digits.find_first_not_of(kDigits) != digits.npos) return std::nullopt;
  return saturated(*number);
}

}  // namespace

void Problems::add(std::string_view type, json::array loc, std::string message, json::value input,
                   std::optional<json::object> context) {
  if (list_.size() >= kProblemsMax) return;
  json::object one{{"type", type}, {"loc", std::move(loc)}, {"msg", std::move(message)}};
  one["input"] = std::move(input);
  if (context) one["ctx"] = *std::move(context);
  list_.push_back(std::move(one));
}

void Problems::missing(json::array loc, json::value input) {
  add("missing", std::move(loc), "Field required", std::move(input));
}

void Problems::value_error(json::array loc, std::string_view text, json::value input) {
  add("value_error", std::move(loc), fmt::format("Value error, {}", text), std::move(input),
      json::object{{"error", json::object()}});
}

void Problems::base64(json::array loc, const std::string& error, json::value input) {
  add("base64_decode", std::move(loc), fmt::format("Base64 decoding error: '{}'", error),
      std::move(input), json::object{{"error", error}});
}

std::string Problems::body() const { return json_text(json::object{{"detail", list_}}); }

std::optional<std::string> read_text(const json::value& value, const json::array& loc,
                                     Problems& problems) {
  if (value.is_string()) return std::string(value.get_string());
  problems.add("string_type", loc, "Input should be a valid string", value);
  return std::nullopt;
}

std::optional<bool> read_flag(const json::value& value, const json::array& loc,
                              Problems& problems) {
  if (value.is_bool()) return value.get_bool();
  std::optional<bool> read;
  bool parsing = true;
  if (value.is_string()) {
    read = flag_word(value.get_string());
  } else if (const auto number = as_double(value)) {
    if (*number == 0 || *number == 1) read = *number == 1;
    parsing = *number == std::floor(*number);
  } else {
    parsing = false;
  }
  if (read) return read;
  if (parsing) {
    problems.add("bool_parsing", loc, "Input should be a valid boolean, unable to interpret input",
                 value);
  } else {
    problems.add("bool_type", loc, "Input should be a valid boolean", value);
  }
  return std::nullopt;
}

std::optional<std::int64_t> read_integer(const json::value& value, const Bounds& bounds,
                                         const json::array& loc, Problems& problems) {
  std::optional<std::int64_t> read;
  if (value.is_string()) {
    read = parse_integer(value.get_string());
    if (!read) {
      problems.add("int_parsing", loc,
                   "Input should be a valid integer, unable to parse string as an integer", value);
      return std::nullopt;
    }
  } else if (const auto number = as_double(value)) {
    if (!std::isfinite(*number)) {
      problems.add("finite_number", loc, "Input should be a finite number", value);
      return std::nullopt;
    }
    if (*number != std::floor(*number)) {
      problems.add("int_from_float", loc,
                   "Input should be a valid integer, got a number with a fractional part", value);
      return std::nullopt;
    }
    read = value.is_int64() ? value.get_int64() : saturated(*number);
  } else {
    problems.add("int_type", loc, "Input should be a valid integer", value);
    return std::nullopt;
  }
  if (bounds.least && *read < *bounds.least) {
    problems.add("greater_than_equal", loc,
                 fmt::format("Input should be greater than or equal to {}", *bounds.least), value,
                 json::object{{"ge", *bounds.least}});
    return std::nullopt;
  }
  if (bounds.most && *read > *bounds.most) {
    problems.add("less_than_equal", loc,
                 fmt::format("Input should be less than or equal to {}", *bounds.most), value,
                 json::object{{"le", *bounds.most}});
    return std::nullopt;
  }
  return read;
}

std::optional<double> read_number(const json::value& value, const json::array& loc,
                                  Problems& problems) {
  if (value.is_string()) {
    if (const auto read = parse_double(value.get_string())) return read;
    problems.add("float_parsing", loc,
                 "Input should be a valid number, unable to parse string as a number", value);
    return std::nullopt;
  }
  if (const auto number = as_double(value)) return number;
  problems.add("float_type", loc, "Input should be a valid number", value);
  return std::nullopt;
}

Fields::Fields(const json::value& value, json::array loc, Problems& problems)
    : value_(value), object_(value.if_object()), loc_(std::move(loc)), problems_(problems) {
  if (object_ != nullptr) return;
  problems_.add("model_attributes_type", loc_,
                "Input should be a valid dictionary or object to extract fields from", value);
}

json::array Fields::loc(std::string_view name) const { return below(loc_, json::value(name)); }

const json::value* Fields::find(std::string_view name) const {
  return object_ == nullptr ? nullptr : object_->if_contains(name);
}

const json::value* Fields::find_not_null(std::string_view name) const {
  const json::value* at = find(name);
  return at == nullptr || at->is_null() ? nullptr : at;
}

const json::value* Fields::required(std::string_view name) {
  const json::value* at = find(name);
  if (at == nullptr && object_ != nullptr) problems_.missing(loc(name), value_);
  return at;
}

std::string Fields::text(std::string_view name) {
  const json::value* at = required(name);
  if (at == nullptr) return {};
  return read_text(*at, loc(name), problems_).value_or("");
}

std::optional<std::string> Fields::text_or_null(std::string_view name) {
  const json::value* at = find_not_null(name);
  if (at == nullptr) return std::nullopt;
  return read_text(*at, loc(name), problems_);
}

bool Fields::flag(std::string_view name, bool otherwise) {
  const json::value* at = find(name);
  if (at == nullptr) return otherwise;
  return read_flag(*at, loc(name), problems_).value_or(otherwise);
}

std::int64_t Fields::integer(std::string_view name, std::int64_t otherwise, const Bounds& bounds) {
  const json::value* at = find(name);
  if (at == nullptr) return otherwise;
  return read_integer(*at, bounds, loc(name), problems_).value_or(otherwise);
}

std::optional<std::int64_t> Fields::integer_or_null(std::string_view name, const Bounds& bounds) {
  const json::value* at = find_not_null(name);
  if (at == nullptr) return std::nullopt;
  return read_integer(*at, bounds, loc(name), problems_);
}

std::optional<double> Fields::number_or_null(std::string_view name) {
  const json::value* at = find_not_null(name);
  if (at == nullptr) return std::nullopt;
  return read_number(*at, loc(name), problems_);
}

std::vector<std::string> Fields::list(const json::value& value, std::string_view name) {
  std::vector<std::string> out;
  const json::array* array = value.if_array();
  if (array == nullptr) {
    problems_.add("list_type", loc(name), "Input should be a valid list", value);
    return out;
  }
  for (std::size_t i = 0; i < array->size(); ++i) {
    auto one = read_text((*array)[i], below(loc(name), i), problems_);
    if (one) out.push_back(*std::move(one));
  }
  return out;
}

std::vector<std::string> Fields::texts(std::string_view name) {
  const json::value* at = required(name);
  return at == nullptr ? std::vector<std::string>() : list(*at, name);
}

std::vector<std::string> Fields::texts_or(std::string_view name,
                                          std::vector<std::string> otherwise) {
  const json::value* at = find(name);
  return at == nullptr ? std::move(otherwise) : list(*at, name);
}

Pairs Fields::pairs_or_null(std::string_view name) {
  Pairs out;
  const json::value* at = find_not_null(name);
  if (at == nullptr) return out;
  if (!at->is_object()) {
    problems_.add("dict_type", loc(name), "Input should be a valid dictionary", *at);
    return out;
  }
  for (const auto& member : at->get_object()) {
    auto text = read_text(member.value(), below(loc(name), json::value(member.key())), problems_);
    if (text) out.emplace_back(member.key(), *std::move(text));
  }
  return out;
}

std::string Fields::choice(std::string_view name, std::string_view first, std::string_view second) {
  const json::value* at = find(name);
  if (at == nullptr) return std::string(first);
  if (at->is_string() && (at->get_string() == first || at->get_string() == second))
    return std::string(at->get_string());
  const std::string expected = fmt::format("'{}' or '{}'", first, second);
  problems_.add("literal_error", loc(name), "Input should be " + expected, *at,
                json::object{{"expected", expected}});
  return std::string(first);
}

}  // namespace caisson::doors
