// engine/native/network_socket.h — a socket that belongs to a sandbox's network and is used from
// outside. Which network a socket belongs to is settled when it is made, so nobody has to stay
// inside.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::engine::native {

// A TCP socket of AF_INET or AF_INET6, not connected, non-blocking, in the network namespace of the
// process behind `pidfd`.
[[nodiscard]] Result<UniqueFd> socket_in_network_of(int pidfd, int family);

}  // namespace caisson::engine::native
