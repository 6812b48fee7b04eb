// doors/shared/json_text.h — JSON as servers in Python write it: compact, UTF-8 as it is, numbers
// as Python shows them.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

namespace caisson::doors {

// The inside of a string, escaped. `text` is valid UTF-8.
void append_escaped(std::string& out, std::string_view text);
void append_string(std::string& out, std::string_view text);  // with its quotes
[[nodiscard]] std::string json_text(const boost::json::value& value);

}  // namespace caisson::doors
