// doors/rest/errors.h — one shape for every error, and one table from our codes to HTTP's.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::rest {

inline constexpr std::size_t kErrorMessageBytesMax = 2048;

[[nodiscard]] unsigned http_status(Errc code) noexcept;

// {"error": {"code", "message", "details", "request_id"}}. What went wrong inside the server is not
// told: the message is then the id under which the log has it. `details` are for programs.
[[nodiscard]] std::string error_text(std::string_view code, const Error& error,
                                     std::string_view request_id, boost::json::object details = {});

}  // namespace caisson::rest
