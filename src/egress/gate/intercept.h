// egress/gate/intercept.h — TLS that a rule wants to be looked into. We answer the guest with a
// certificate of its sandbox's authority, speak verified TLS with the host, and the same relay of
// HTTP stands in between: every request on it is judged by method and path, and a rule's secrets
// are put in on the way to the host and nowhere else.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "egress/gate/connection.h"

namespace caisson::egress {

// The connection was reached, its ClientHello lies in connection.in and is judged. No other
// coroutine uses the connection.
[[nodiscard]] boost::asio::awaitable<void> intercept(Connection& connection, Asked asked);

}  // namespace caisson::egress
