// egress/gate/socks_door.h — a SOCKS5 client: a host by name, or an address inside that stands for
// one.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "egress/gate/connection.h"

namespace caisson::egress {

// Its first bytes are in connection.in.
[[nodiscard]] boost::asio::awaitable<void> serve_socks(Connection& connection);

}  // namespace caisson::egress
