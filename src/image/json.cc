#include "image/json.h"

#include <fmt/core.h>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parse.hpp>
#include <set>

namespace caisson::image {

namespace json = boost::json;

namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// Sees every key before a tree is made of the text: the tree would keep only the last of two.
struct KeyWatch {
  static constexpr std::size_t max_array_size = kNone;
  static constexpr std::size_t max_object_size = kNone;
  static constexpr std::size_t max_string_size = kNone;
  static constexpr std::size_t max_key_size = kNone;

  std::vector<std::set<std::string, std::less<>>> open;
  std::string key;
  bool twice = false;
  std::size_t values = 0;

  bool count(json::error_code& ec) {
    if (++values <= kJsonValuesMax) return true;
    ec = json::error::exception;
    return false;
  }
  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code& ec) {
    open.emplace_back();
    return count(ec);
  }
  bool on_object_end(std::size_t, json::error_code&) {
    open.pop_back();
    return true;
  }
  bool on_array_begin(json::error_code& ec) { return count(ec); }
  bool on_array_end(std::size_t, json::error_code&) { return true; }
  bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
    key.append(part.data(), part.size());
    return true;
  }
  bool on_key(json::string_view part, std::size_t, json::error_code& ec) {
    key.append(part.data(), part.size());
    if (!open.back().insert(key).second) {
      twice = true;
      ec = json::error::exception;
      return false;
    }
    key.clear();
    return count(ec);
  }
  bool on_string_part(json::string_view, std::size_t, json::error_code&) { return true; }
  bool on_string(json::string_view, std::size_t, json::error_code& ec) { return count(ec); }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t, json::string_view, json::error_code& ec) { return count(ec); }
  bool on_uint64(std::uint64_t, json::string_view, json::error_code& ec) { return count(ec); }
  bool on_double(double, json::string_view, json::error_code& ec) { return count(ec); }
  bool on_bool(bool, json::error_code& ec) { return count(ec); }
  bool on_null(json::error_code& ec) { return count(ec); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }
};

json::parse_options strict() {
  json::parse_options options;
  options.max_depth = kJsonDepthMax;
  return options;
}

}  // namespace

std::unexpected<Error> bad_document(std::string_view place, std::string_view why) {
  return failure(Errc::Protocol, fmt::format("{} {}", place, why));
}

Result<json::object> parse_json_object(std::string_view text, std::size_t bytes_max,
                                       std::string_view what) {
  if (text.size() > bytes_max) {
    return failure(Errc::TooLarge, fmt::format("{} has {} bytes, and at most {} are read", what,
                                               text.size(), bytes_max));
  }
  json::basic_parser<KeyWatch> watch(strict());
  json::error_code ec;
  const std::size_t used = watch.write_some(false, text.data(), text.size(), ec);
  const KeyWatch& seen = watch.handler();
  if (seen.twice) {
    return bad_document(what, fmt::format("has the key '{}' twice", seen.key.substr(0, 64)));
  }
  if (seen.values > kJsonValuesMax) {
    return bad_document(what, fmt::format("has more than {} values", kJsonValuesMax));
  }
  if (ec) return bad_document(what, fmt::format("is not JSON: {}", ec.message()));
  if (used < text.size() && text.substr(used).find_first_not_of(" \t\r\n") != text.npos) {
    return bad_document(what, "has something behind its JSON");
  }
  json::value value = json::parse(json::string_view(text.data(), text.size()), ec, {}, strict());
  if (ec) return bad_document(what, fmt::format("is not JSON: {}", ec.message()));
  if (!value.is_object()) return bad_document(what, "is not a JSON object");
  return std::move(value.get_object());
}

std::string JsonReader::place(std::string_view key) const {
  return place_.ends_with(':') ? fmt::format("{} {}", place_, key)
                               : fmt::format("{}.{}", place_, key);
}

bool JsonReader::has(std::string_view key) const {
  const auto* value = object_.if_contains(json::string_view(key.data(), key.size()));
  return value != nullptr && !value->is_null();
}

Result<std::string> JsonReader::text(std::string_view key, std::size_t bytes_max) const {
  if (!has(key)) return std::string();
  const auto& value = object_.at(json::string_view(key.data(), key.size()));
  if (!value.is_string()) return bad_document(place(key), "is not a text");
  const auto& string = value.get_string();
  if (string.size() > bytes_max) {
    return bad_document(place(key), fmt::format("is longer than {} bytes", bytes_max));
  }
  if (string.find('\0') != json::string::npos) return bad_document(place(key), "has a NUL in it");
  return std::string(string.data(), string.size());
}

Result<std::uint64_t> JsonReader::number(std::string_view key, std::uint64_t max) const {
  if (!has(key)) return bad_document(place(key), "is missing");
  const auto& value = object_.at(json::string_view(key.data(), key.size()));
  std::uint64_t out = 0;
  if (value.is_int64() && value.get_int64() >= 0) {
    out = static_cast<std::uint64_t>(value.get_int64());
  } else if (value.is_uint64()) {
    out = value.get_uint64();
  } else {
    return bad_document(place(key), "is not a whole number from 0 up");
  }
  if (out > max) {
    return failure(Errc::TooLarge,
                   fmt::format("{} is {}, and at most {} is taken", place(key), out, max));
  }
  return out;
}

Result<const json::object*> JsonReader::object(std::string_view key) const {
  if (!has(key)) return nullptr;
  const auto& value = object_.at(json::string_view(key.data(), key.size()));
  if (!value.is_object()) return bad_document(place(key), "is not an object");
  return &value.get_object();
}

Result<const json::array*> JsonReader::array(std::string_view key, std::size_t entries_max) const {
  if (!has(key)) return nullptr;
  const auto& value = object_.at(json::string_view(key.data(), key.size()));
  if (!value.is_array()) return bad_document(place(key), "is not a list");
  if (value.get_array().size() > entries_max) {
    return failure(Errc::TooLarge, fmt::format("{} has {} entries, and at most {} are taken",
                                               place(key), value.get_array().size(), entries_max));
  }
  return &value.get_array();
}

Result<std::vector<std::string>> JsonReader::texts(std::string_view key, std::size_t entries_max,
                                                   std::size_t bytes_max) const {
  const json::array* list = TRY(array(key, entries_max));
  std::vector<std::string> out;
  if (list == nullptr) return out;
  std::size_t bytes = 0;
  for (const auto& value : *list) {
    if (!value.is_string()) return bad_document(place(key), "has an entry that is not a text");
    const auto& string = value.get_string();
    bytes += string.size() + 1;
    if (bytes > bytes_max) {
      return failure(Errc::TooLarge,
                     fmt::format("{} has more than {} bytes in all", place(key), bytes_max));
    }
    if (string.find('\0') != json::string::npos) {
      return bad_document(place(key), "has a NUL in it");
    }
    out.emplace_back(string.data(), string.size());
  }
  return out;
}

}  // namespace caisson::image
