// cli/client_json.h — JSON of a server: read without trust, shown to people. A field that is not
// there, or is of another type, is as good as empty: a newer server must not break an older client.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::cli {

[[nodiscard]] Result<boost::json::value> parse_json(std::string_view text);

[[nodiscard]] std::string text_at(const boost::json::value& value, std::string_view name);
[[nodiscard]] double number_at(const boost::json::value& value, std::string_view name);
[[nodiscard]] std::uint64_t count_at(const boost::json::value& value, std::string_view name);
[[nodiscard]] bool truth_at(const boost::json::value& value, std::string_view name);
[[nodiscard]] const boost::json::array& list_at(const boost::json::value& value,
                                                std::string_view name);
// Null when there is none.
[[nodiscard]] const boost::json::value& field_at(const boost::json::value& value,
                                                 std::string_view name);

// Indented by two spaces; every character that acts on a terminal is escaped, which is the same
// JSON.
[[nodiscard]] std::string pretty(const boost::json::value& value);

}  // namespace caisson::cli
