// cli/client_create.h — the flags of `caisson create` as the body of the request.
#pragma once

#include <boost/json/object.hpp>
#include <expected>
#include <span>
#include <string>

#include "base/result.h"
#include "cli/client_session.h"

namespace caisson::cli {

inline constexpr std::size_t kCreateFileBytesMax = 4UL * 1024 * 1024;  // all of them together

struct CreateOptions {
  ClientOptions client;
  boost::json::object body;
};

// A value, or the exit status when nothing is left to do.
[[nodiscard]] std::expected<CreateOptions, int> parse_create_options(std::span<char*> args);

}  // namespace caisson::cli
