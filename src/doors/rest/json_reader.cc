#include "doors/rest/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_stack.hpp>
#include <cmath>

#include "doors/rest/text.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

constexpr double kExactMax = 9007199254740992.0;  // whole numbers of a double are exact below

// Builds the value and keeps, for each open object, the keys it has. Boost would keep the last of
// two members with one name, and a proxy in front might judge the first.
class Builder {
 public:
  static constexpr std::size_t max_object_size = kJsonMembersMax;  // NOLINT: names are Boost's
  static constexpr std::size_t max_array_size = kJsonItemsMax;     // NOLINT
  static constexpr std::size_t max_key_size = kJsonKeyBytesMax;    // NOLINT
  static constexpr std::size_t max_string_size = kJsonBytesMax;    // NOLINT

  Builder() { stack_.reset(); }
  json::value release() { return stack_.release(); }
  const std::optional<std::string>& twice() const { return twice_; }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code& ec) {
    open_.emplace_back();
    return count(ec);
  }
  bool on_object_end(std::size_t n, json::error_code&) {
    open_.pop_back();
    stack_.push_object(n);
    return true;
  }
  bool on_array_begin(json::error_code& ec) { return count(ec); }
  bool on_array_end(std::size_t n, json::error_code&) {
    stack_.push_array(n);
    return true;
  }
  bool on_key_part(json::string_view s, std::size_t, json::error_code&) {
    key_ += s;
    stack_.push_chars(s);
    return true;
  }
  bool on_key(json::string_view s, std::size_t, json::error_code& ec) {
    key_ += s;
    stack_.push_key(s);
    if (!open_.back().insert(key_).second) {
      twice_ = key_;
      ec = json::error::syntax;
      return false;
    }
    key_.clear();
    return true;
  }
  bool on_string_part(json::string_view s, std::size_t, json::error_code&) {
    stack_.push_chars(s);
    return true;
  }
  bool on_string(json::string_view s, std::size_t, json::error_code& ec) {
    stack_.push_string(s);
    return count(ec);
  }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t value, json::string_view, json::error_code& ec) {
    stack_.push_int64(value);
    return count(ec);
  }
  bool on_uint64(std::uint64_t value, json::string_view, json::error_code& ec) {
    stack_.push_uint64(value);
    return count(ec);
  }
  bool on_double(double value, json::string_view, json::error_code& ec) {
    if (!std::isfinite(value)) {
      ec = json::error::not_number;
      return false;
    }
    stack_.push_double(value);
    return count(ec);
  }
  bool on_bool(bool value, json::error_code& ec) {
    stack_.push_bool(value);
    return count(ec);
  }
  bool on_null(json::error_code& ec) {
    stack_.push_null();
    return count(ec);
  }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  bool count(json::error_code& ec) {
    if (++values_ <= kJsonValuesMax) return true;
    ec = json::error::array_too_large;
    return false;
  }

  json::value_stack stack_;
  std::vector<std::set<std::string, std::less<>>> open_;
  std::string key_;
  std::optional<std::string> twice_;
  std::size_t values_ = 0;
};

std::string_view type_name(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
    case json::kind::double_:
      return "a number";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "unknown";
}

// The value as the complaint shows it: short, quoted, on one line.
std::string shown(const json::value& value) {
  if (value.is_object() || value.is_array()) return std::string(type_name(value));
  if (const auto* text = value.if_string()) {
    return json::serialize(json::string_view(cut_utf8(std::string_view(*text), 64)));
  }
  return json::serialize(value);
}

std::optional<double> as_number(const json::value& value) {
  if (const auto* i = value.if_int64()) return static_cast<double>(*i);
  if (const auto* u = value.if_uint64()) return static_cast<double>(*u);
  if (const auto* d = value.if_double()) return *d;
  return std::nullopt;
}

std::string short_number(double value) { return fmt::format("{}", value); }

}  // namespace

Result<json::value> parse_json(std::string_view text) {
  if (text.size() > kJsonBytesMax) {
    return failure(Errc::TooLarge,
                   fmt::format("the JSON has {} bytes: at most {}", text.size(), kJsonBytesMax));
  }
  json::parse_options options;
  options.max_depth = kJsonDepthMax;
  json::basic_parser<Builder> parser(options);
  json::error_code ec;
  const std::size_t read = parser.write_some(false, text.data(), text.size(), ec);
  if (const auto& twice = parser.handler().twice()) {
    return bad_field(std::string(cut_utf8(*twice, 128)),
                     "the JSON names a field twice: \"" + std::string(cut_utf8(*twice, 128)) + '"');
  }
  if (ec == json::error::too_deep) {
    return failure(Errc::InvalidArgument,
                   fmt::format("the JSON is nested deeper than {} levels", kJsonDepthMax));
  }
  if (ec == json::error::object_too_large || ec == json::error::array_too_large ||
      ec == json::error::key_too_large) {
    return failure(Errc::TooLarge, "the JSON has too many values, or a key that is too long");
  }
  if (ec) {
    return failure(Errc::InvalidArgument,
                   fmt::format("the body is not JSON: {} near byte {}", ec.message(), read));
  }
  if (!parser.done()) return failure(Errc::InvalidArgument, "the JSON ends too early");
  if (read < text.size()) {
    return failure(Errc::InvalidArgument,
                   fmt::format("something stands behind the JSON, from byte {} on", read));
  }
  return parser.handler().release();
}

Result<json::object> parse_json_object(std::string_view text) {
  json::value value = TRY(parse_json(text));
  if (!value.is_object()) {
    return failure(Errc::InvalidArgument,
                   fmt::format("the body is {}: want an object", type_name(value)));
  }
  return std::move(value.as_object());
}

Fields::Fields(const json::object& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

std::string Fields::path(std::string_view name) const {
  return prefix_.empty() ? std::string(name) : prefix_ + "." + std::string(name);
}

void Fields::complain(std::string_view name, std::string message) {
  if (error_) return;
  error_ = Error{Errc::InvalidArgument, path(name) + ' ' + std::move(message), 0, path(name)};
}

void Fields::adopt(const Result<void>& nested) {
  if (!nested && !error_) error_ = nested.error();
}

void Fields::require(std::string_view name) {
  const auto* value = object_.if_contains(name);
  if (value == nullptr || value->is_null()) complain(name, "is missing");
}

const json::value* Fields::any(std::string_view name) {
  known_.emplace(name);
  const auto* value = object_.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool Fields::good(std::string_view name, std::string_view value, const TextRule& rule) {
  if (value.size() < rule.min) {
    complain(name, value.empty()
                       ? "is empty"
                       : fmt::format("has {} bytes: want at least {}", value.size(), rule.min));
    return false;
  }
  if (value.size() > rule.max) {
    complain(name, fmt::format("has {} bytes: at most {}", value.size(), rule.max));
    return false;
  }
  if (!rule.may_hold_nul && value.find('\0') != std::string_view::npos) {
    complain(name, "holds a NUL character");
    return false;
  }
  return true;
}

std::optional<std::string> Fields::text(std::string_view name, TextRule rule) {
  const auto* value = any(name);
  if (value == nullptr) return std::nullopt;
  const auto* text = value->if_string();
  if (text == nullptr) {
    complain(name, "is " + shown(*value) + ": want a string");
    return std::nullopt;
  }
  if (!good(name, *text, rule)) return std::nullopt;
  return std::string(*text);
}

std::optional<double> Fields::number(std::string_view name, double min, double max) {
  const auto* value = any(name);
  if (value == nullptr) return std::nullopt;
  const auto number = as_number(*value);
  if (!number || *number < min || *number > max) {
    complain(name, fmt::format("is {}: want a number from {} to {}", shown(*value),
                               short_number(min), short_number(max)));
    return std::nullopt;
  }
  return number;
}

std::optional<double> Fields::positive(std::string_view name, double max) {
  const auto* value = any(name);
  if (value == nullptr) return std::nullopt;
  const auto number = as_number(*value);
  if (!number || *number <= 0 || *number > max) {
    complain(name, fmt::format("is {}: want a number above 0, at most {}", shown(*value),
                               short_number(max)));
    return std::nullopt;
  }
  return number;
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t min,
                                            std::int64_t max) {
  const auto* value = any(name);
  if (value == nullptr) return std::nullopt;
  const auto number = as_number(*value);
  // 3.0 is a whole number, as in JSON Schema; 2^53 and above would be rounded.
  const bool whole = value->is_int64() ||
                     (number && std::abs(*number) < kExactMax && std::trunc(*number) == *number);
  if (whole) {
    const std::int64_t exact =
        value->is_int64() ? value->get_int64() : static_cast<std::int64_t>(*number);
    if (exact >= min && exact <= max) return exact;
  }
  complain(name, fmt::format("is {}: want a whole number from {} to {}", shown(*value), min, max));
  return std::nullopt;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const auto* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = value->if_bool()) return *flag;
  complain(name, "is " + shown(*value) + ": want true or false");
  return std::nullopt;
}

std::optional<std::string> Fields::choice(std::string_view name,
                                          std::vector<std::string_view> choices) {
  const auto* value = any(name);
  if (value == nullptr) return std::nullopt;
  const auto* text = value->if_string();
  if (text != nullptr && std::ranges::find(choices, std::string_view(*text)) != choices.end()) {
    return std::string(*text);
  }
  complain(name, fmt::format("is {}: want \"{}\"", shown(*value), fmt::join(choices, "\" or \"")));
  return std::nullopt;
}

std::optional<std::vector<std::string>> Fields::texts(std::string_view name, std::size_t count_max,
                                                      TextRule rule) {
  const auto* value = any(name);
  if (value == nullptr) return std::nullopt;
  const auto* array = value->if_array();
  if (array == nullptr) {
    complain(name, "is " + shown(*value) + ": want an array of strings");
    return std::nullopt;
  }
  if (array->size() > count_max) {
    complain(name, fmt::format("has {} items: at most {}", array->size(), count_max));
    return std::nullopt;
  }
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < array->size(); ++i) {
    const std::string item = fmt::format("{}[{}]", name, i);
    const auto* text = (*array)[i].if_string();
    if (text == nullptr) {
      complain(item, "is " + shown((*array)[i]) + ": want a string");
      return std::nullopt;
    }
    if (!good(item, *text, rule)) return std::nullopt;
    texts.emplace_back(*text);
  }
  return texts;
}

Fields::Pairs Fields::pairs(std::string_view name, std::size_t count_max, TextRule keys,
                            TextRule values) {
  const auto* members = object(name);
  if (members == nullptr) return {};
  if (members->size() > count_max) {
    complain(name, fmt::format("has {} members: at most {}", members->size(), count_max));
    return {};
  }
  Pairs pairs;
  for (const auto& member : *members) {
    const std::string item =
        std::string(name) + "." + std::string(cut_utf8(std::string_view(member.key()), 128));
    const auto* text = member.value().if_string();
    if (text == nullptr) {
      complain(item, "is " + shown(member.value()) + ": want a string");
      return {};
    }
    if (!good(item, member.key(), keys) || !good(item, *text, values)) return {};
    pairs.emplace_back(std::string(member.key()), std::string(*text));
  }
  return pairs;
}

const json::object* Fields::object(std::string_view name) {
  const auto* value = any(name);
  if (value == nullptr) return nullptr;
  const auto* members = value->if_object();
  if (members == nullptr) complain(name, "is " + shown(*value) + ": want an object");
  return members;
}

Result<void> Fields::finish() const {
  // A misspelled name explains more than whatever else is wrong.
  for (const auto& member : object_) {
    if (known_.contains(std::string_view(member.key()))) continue;
    const std::string name = path(cut_utf8(std::string_view(member.key()), 128));
    return bad_field(name, name + " is not a field here; the fields are: " +
                               fmt::format("{}", fmt::join(known_, ", ")));
  }
  if (error_) return std::unexpected(*error_);
  return {};
}

}  // namespace caisson::rest
