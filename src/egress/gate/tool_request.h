// egress/gate/tool_request.h — a request that a tool of ours makes in a sandbox's name, and what
// came back.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/clock.h"
#include "http/field.h"

namespace caisson::egress {

inline constexpr std::size_t kToolBodyBytesMax = 1024UL * 1024;  // in either direction
inline constexpr std::size_t kToolFieldsMax = 64;
inline constexpr std::size_t kToolFieldBytesMax = 16UL * 1024;  // of all fields together

struct ToolRequest {
  std::string method = "GET";
  std::string url;  // http:// or https://
  std::vector<http::Field> fields;
  std::string body;
  milliseconds limit{60000};  // for all of it
};

struct ToolAnswer {
  unsigned status = 0;
  std::vector<http::Field> fields;
  std::string body;
  bool truncated = false;  // there was more
};

}  // namespace caisson::egress
