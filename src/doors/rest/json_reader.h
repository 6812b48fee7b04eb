// doors/rest/json_reader.h — a strict reader of JSON that strangers wrote.
//
// parse_json() refuses what two parsers could read differently or what costs more than it weighs:
// duplicate keys, depth, numbers that are not finite, bad UTF-8, text behind the value. Fields then
// takes one object apart: each getter checks type and range, and finish() refuses what nobody asked
// for. Every complaint names the path, such as "resource_limits.cpu". `null` is the same as leaving
// a field out.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace caisson::rest {

inline constexpr std::size_t kJsonBytesMax = 8UL * 1024 * 1024;
inline constexpr std::size_t kJsonDepthMax = 32;
inline constexpr std::size_t kJsonMembersMax = 4096;   // of one object
inline constexpr std::size_t kJsonItemsMax = 16384;    // of one array
inline constexpr std::size_t kJsonValuesMax = 65536;   // of one document
inline constexpr std::size_t kJsonKeyBytesMax = 4096;  // paths are keys in "files"

[[nodiscard]] Result<boost::json::value> parse_json(std::string_view text);
// The same for a document that must be an object.
[[nodiscard]] Result<boost::json::object> parse_json_object(std::string_view text);

struct TextRule {
  std::size_t min = 0;
  std::size_t max = 4096;  // bytes
  bool may_hold_nul = false;
};

class Fields {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  // `object` outlives the reader. `prefix` is its own path, empty for the document.
  explicit Fields(const boost::json::object& object, std::string prefix = {});

  [[nodiscard]] std::optional<std::string> text(std::string_view name, TextRule rule);
  [[nodiscard]] std::optional<double> number(std::string_view name, double min, double max);
  // As number(), and 0 is not in it.
  [[nodiscard]] std::optional<double> positive(std::string_view name, double max);
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view name, std::int64_t min,
                                                    std::int64_t max);
  [[nodiscard]] std::optional<bool> boolean(std::string_view name);
  [[nodiscard]] std::optional<std::string> choice(std::string_view name,
                                                  std::vector<std::string_view> choices);
  [[nodiscard]] std::optional<std::vector<std::string>> texts(std::string_view name,
                                                              std::size_t count_max, TextRule rule);
  // An object whose values are texts, in its own order.
  [[nodiscard]] Pairs pairs(std::string_view name, std::size_t count_max, TextRule keys,
                            TextRule values);
  [[nodiscard]] const boost::json::object* object(std::string_view name);
  // Of any type; marks the field as known.
  [[nodiscard]] const boost::json::value* any(std::string_view name);

  void require(std::string_view name);  // neither missing nor null
  void complain(std::string_view name, std::string message);
  void adopt(const Result<void>& nested);  // the outcome of a reader one level down
  [[nodiscard]] std::string path(std::string_view name) const;

  // The first complaint, or a field that no getter was asked for.
  [[nodiscard]] Result<void> finish() const;

 private:
  [[nodiscard]] bool good(std::string_view name, std::string_view value, const TextRule& rule);

  const boost::json::object& object_;
  std::string prefix_;
  std::set<std::string, std::less<>> known_;
  std::optional<Error> error_;
};

}  // namespace caisson::rest
