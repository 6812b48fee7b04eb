// egress/gate/arrival.h — what a connection wants, told by the address it came to. The kernel says
// where that was; a guest cannot say anything else.
#pragma once

#include <cstdint>

#include "egress/gate/socket_address.h"
#include "policy/way_out.h"

namespace caisson::egress {

// Where a guest finds us, all on its own loopback.
using policy::kProxyPort;
using policy::kResolverPort;
using policy::kSocksPort;

enum class Role : std::uint8_t {
  Proxy,        // HTTP or SOCKS5
  Resolver,     // DNS by TCP
  Transparent,  // to an address that stands for a name
  Stranger,     // closed
};

struct Arrival {
  Role role = Role::Stranger;
  Endpoint to;
};

// `proxy`, if not 0, is one more port of the proxy.
[[nodiscard]] Arrival arrival_at(const Endpoint& to, std::uint16_t proxy = 0) noexcept;

}  // namespace caisson::egress
