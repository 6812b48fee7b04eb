#include "cli/client_json.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace caisson::cli {
namespace {

const boost::json::value& nothing() {
  static const boost::json::value kNull;
  return kNull;
}

// Boost escapes below U+0020; U+007F to U+009F act on some terminals, too.
std::string quoted(std::string_view text) {
  const std::string plain = boost::json::serialize(boost::json::string(text));
  std::string out;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const auto byte = static_cast<unsigned char>(plain[i]);
    if (byte == 0x7f) {
      out += "\\u007f";
    } else if (byte == 0xc2 && i + 1 < plain.size() &&
               static_cast<unsigned char>(plain[i + 1]) < 0xa0) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(plain[++i]));
    } else {
      out += plain[i];
    }
  }
  return out;
}

// NOLINTNEXTLINE(misc-no-recursion): the parser bounds the depth
void add(std::string& out, const boost::json::value& value, std::size_t indent) {
  const std::string pad(indent + 2, ' ');
  const std::string end(indent, ' ');
  if (const auto* object = value.if_object(); object != nullptr && !object->empty()) {
    out += "{\n";
    std::size_t left = object->size();
    for (const auto& [key, item] : *object) {
      out += pad + quoted(key) + ": ";
      add(out, item, indent + 2);
      out += --left > 0 ? ",\n" : "\n";
    }
    out += end + "}";
  } else if (const auto* array = value.if_array(); array != nullptr && !array->empty()) {
    out += "[\n";
    std::size_t left = array->size();
    for (const auto& item : *array) {
      out += pad;
      add(out, item, indent + 2);
      out += --left > 0 ? ",\n" : "\n";
    }
    out += end + "]";
  } else if (const auto* text = value.if_string()) {
    out += quoted(*text);
  } else if (const auto* number = value.if_double()) {
    out += fmt::format("{}", *number);  // Boost writes 30.0 as 3E1
  } else {
    out += boost::json::serialize(value);
  }
}

}  // namespace

Result<boost::json::value> parse_json(std::string_view text) {
  boost::system::error_code code;
  boost::json::value value = boost::json::parse(text, code);
  if (code) return failure(Errc::Protocol, "the server sent no JSON: " + code.message());
  return value;
}

const boost::json::value& field_at(const boost::json::value& value, std::string_view name) {
  const auto* object = value.if_object();
  if (object == nullptr) return nothing();
  const auto* found = object->if_contains(name);
  return found != nullptr ? *found : nothing();
}

std::string text_at(const boost::json::value& value, std::string_view name) {
  const auto* text = field_at(value, name).if_string();
  return text != nullptr ? std::string(*text) : std::string();
}

double number_at(const boost::json::value& value, std::string_view name) {
  const boost::json::value& field = field_at(value, name);
  if (const auto* whole = field.if_int64()) return static_cast<double>(*whole);
  if (const auto* large = field.if_uint64()) return static_cast<double>(*large);
  const auto* number = field.if_double();
  return number != nullptr ? *number : 0;
}

std::uint64_t count_at(const boost::json::value& value, std::string_view name) {
  const boost::json::value& field = field_at(value, name);
  if (const auto* large = field.if_uint64()) return *large;
  if (const auto* whole = field.if_int64(); whole != nullptr && *whole > 0)
    return static_cast<std::uint64_t>(*whole);
  const auto* number = field.if_double();
  if (number == nullptr || !(*number > 0) || *number > 1e18) return 0;
  return static_cast<std::uint64_t>(*number);
}

bool truth_at(const boost::json::value& value, std::string_view name) {
  const auto* truth = field_at(value, name).if_bool();
  return truth != nullptr && *truth;
}

const boost::json::array& list_at(const boost::json::value& value, std::string_view name) {
  static const boost::json::array kEmpty;
  const auto* list = field_at(value, name).if_array();
  return list != nullptr ? *list : kEmpty;
}

std::string pretty(const boost::json::value& value) {
  std::string out;
  add(out, value, 0);
  return out + '\n';
}

}  // namespace caisson::cli
