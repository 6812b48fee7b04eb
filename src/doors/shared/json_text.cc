#include "doors/shared/json_text.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <cmath>

namespace caisson::doors {

namespace json = boost::json;

namespace {

std::string_view short_escape(char c) noexcept {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return {};
  }
}

std::string number_text(double number) {
  if (!std::isfinite(number)) return "null";  // JSON has no word for it
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// Depth is bounded by the parser's kDepthMax.
void append(std::string& out, const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      out += "null";
      break;
    case json::kind::bool_:
      out += value.get_bool() ? "true" : "false";
      break;
    case json::kind::int64:
      out += fmt::format("{}", value.get_int64());
      break;
    case json::kind::uint64:
      out += fmt::format("{}", value.get_uint64());
      break;
    case json::kind::double_:
      out += number_text(value.get_double());
      break;
    case json::kind::string:
      append_string(out, value.get_string());
      break;
    case json::kind::array: {
      char before = '[';
      for (const json::value& one : value.get_array()) {
        out += std::exchange(before, ',');
        append(out, one);
      }
      out += before == '[' ? "[]" : "]";
      break;
    }
    case json::kind::object: {
      char before = '{';
      for (const auto& member : value.get_object()) {
        out += std::exchange(before, ',');
        append_string(out, member.key());
        out += ':';
        append(out, member.value());
      }
      out += before == '{' ? "{}" : "}";
      break;
    }
  }
}

}  // namespace

void append_escaped(std::string& out, std::string_view text) {
  std::size_t plain = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text.substr(plain, at - plain));
    plain = at + 1;
    const std::string_view known = short_escape(c);
    if (known.empty()) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += known;
    }
  }
  out.append(text.substr(plain));
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  append_escaped(out, text);
  out += '"';
}

std::string json_text(const json::value& value) {
  std::string out;
  append(out, value);
  return out;
}

}  // namespace caisson::doors
