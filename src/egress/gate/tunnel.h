// egress/gate/tunnel.h — a client that is connected to its host and has not said anything yet:
// behind CONNECT, SOCKS5, or a connection to an address that stands for a name. What the host says
// first is passed on where the rule allows a protocol that we cannot read. What the client says
// first is held until it is judged, whenever it comes.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "egress/gate/connection.h"

namespace caisson::egress {

// The connection was reached with `asked`, whose first bytes are NothingSeen.
[[nodiscard]] boost::asio::awaitable<void> run_tunnel(Connection& connection, Asked asked);

}  // namespace caisson::egress
