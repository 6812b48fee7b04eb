// egress/gate/resolv_conf.h — the name servers of this host, as its resolv.conf lists them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "egress/wire/ip_address.h"

namespace caisson::egress {

inline constexpr std::size_t kNameServersMax = 3;  // as the C library
inline constexpr std::uint16_t kDnsPort = 53;

struct NameServer {
  IpAddress address;
  std::uint16_t port = kDnsPort;

  friend bool operator==(const NameServer&, const NameServer&) = default;
};

// The servers in their order, at most kNameServersMax; a line that names none is passed over, as
// every reader of this file does. An address with a zone ("fe80::1%eth0") is passed over, too.
[[nodiscard]] std::vector<NameServer> read_resolv_conf(std::string_view text);

}  // namespace caisson::egress
