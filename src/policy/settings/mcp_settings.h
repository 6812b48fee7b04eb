// policy/settings/mcp_settings.h — the door of the Model Context Protocol: the sandboxes that its
// calls get when they name none.
#pragma once

#include <cstdint>
#include <string>

namespace caisson::policy {

inline constexpr std::int64_t kMcpSandboxesMax = 10'000;

struct McpSettings {
  std::string profile;           // of which they are; empty: none
  double life_seconds = 28'800;  // from its creation; 0: as other sandboxes
  double idle_seconds = 1'800;   // since it was last asked for something; 0: as other sandboxes
  std::int64_t sandboxes_per_token = 8;
  bool one_sandbox_per_token = false;

  friend bool operator==(const McpSettings&, const McpSettings&) = default;
};

}  // namespace caisson::policy
