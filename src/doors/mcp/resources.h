// doors/mcp/resources.h — what a client can read of sandboxes beside tools: files, the policy that
// holds, and the budget.
//
//   caisson://ID/files/PATH   caisson://ID/policy   caisson://ID/budget
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "doors/mcp/call.h"

namespace caisson::mcp {

inline constexpr std::size_t kResourceBytesMax = 512UL * 1024;  // of a file
inline constexpr std::size_t kListedSandboxesMax = 100;

struct ResourceName {
  std::string sandbox;
  enum class Kind : std::uint8_t { Files, Policy, Budget } kind = Kind::Policy;
  std::string path;  // absolute, of files
};
[[nodiscard]] std::optional<ResourceName> parse_uri(std::string_view uri);
[[nodiscard]] std::string policy_uri(std::string_view sandbox);

[[nodiscard]] boost::json::object list_resources(Call& call);
[[nodiscard]] boost::json::object list_templates();
awaitable<Answer> read_resource(Call& call);

}  // namespace caisson::mcp
