// egress/gate/socket_address.h — between our address and the kernel's.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "egress/wire/ip_address.h"

namespace caisson::egress {

struct Endpoint {
  IpAddress address;
  std::uint16_t port = 0;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

struct KernelAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

[[nodiscard]] KernelAddress to_kernel(const IpAddress& address, std::uint16_t port) noexcept;
// A mapped address is given as the IPv4 address in it: a socket for both families says it so.
[[nodiscard]] std::optional<Endpoint> from_kernel(const sockaddr_storage& storage) noexcept;
// Where a connection came to.
[[nodiscard]] std::optional<Endpoint> local_endpoint(int fd) noexcept;

}  // namespace caisson::egress
