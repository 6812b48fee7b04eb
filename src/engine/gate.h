// engine/gate.h — the sockets of a sandbox's way out, as a launcher hands them on.
#pragma once

#include <vector>

#include "base/unique_fd.h"

namespace caisson::engine {

inline constexpr std::size_t kGatePortsMax = 16;  // with a listener each, where nothing steers

inline constexpr std::size_t kGateOwnPorts = 4;  // the proxy's two, SOCKS, the resolver's

struct GateSockets {
  UniqueFd resolver;                // UDP, on the resolver's port of 127.0.0.1
  UniqueFd steering;                // must stay open; none where each port has its listener
  std::vector<UniqueFd> listeners;  // TCP, non-blocking

  [[nodiscard]] bool empty() const noexcept { return listeners.empty(); }
};

}  // namespace caisson::engine
