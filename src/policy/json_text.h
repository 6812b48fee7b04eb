// policy/json_text.h — a JSON value as one line a person can read: `{"a": 1, "b": [0.1, 30.0]}`.
// Boost.JSON writes 30.0 as 3E1, which is the same number and an odd sight in a report; so the
// numbers are ours and the escaping of strings is Boost's.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace caisson::policy {

[[nodiscard]] std::string json_text(const boost::json::value& value);

}  // namespace caisson::policy
