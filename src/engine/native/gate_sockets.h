// engine/native/gate_sockets.h — the sockets of a sandbox's only way out, opened inside its network
// and served from outside. There is no link, bridge or packet filter: whoever is to serve them gets
// the descriptors, and the guest finds on its own loopback what policy/way_out.h says.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/gate.h"

namespace caisson::engine::native {

// In the network behind `target`: a network namespace's descriptor, or a pidfd. `ports` are the
// ones that get a listener of their own where the kernel cannot steer; `proxy`, if not 0, is one
// more port on which the proxy is found.
[[nodiscard]] Result<GateSockets> open_gate_in(int target, const std::vector<std::uint16_t>& ports,
                                               std::uint16_t proxy = 0);

}  // namespace caisson::engine::native
