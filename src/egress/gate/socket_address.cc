#include "egress/gate/socket_address.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace caisson::egress {

KernelAddress to_kernel(const IpAddress& address, std::uint16_t port) noexcept {
  KernelAddress out;
  const Bytes bytes = address.bytes();
  if (address.family() == IpFamily::V4) {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    std::memcpy(&four.sin_addr, bytes.data(), bytes.size());
    std::memcpy(&out.storage, &four, sizeof four);
    out.size = sizeof four;
    return out;
  }
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  std::memcpy(&six.sin6_addr, bytes.data(), bytes.size());
  std::memcpy(&out.storage, &six, sizeof six);
  out.size = sizeof six;
  return out;
}

std::optional<Endpoint> from_kernel(const sockaddr_storage& storage) noexcept {
  if (storage.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &storage, sizeof four);
    return Endpoint{IpAddress::v4(ntohl(four.sin_addr.s_addr)), ntohs(four.sin_port)};
  }
  if (storage.ss_family != AF_INET6) return std::nullopt;
  sockaddr_in6 six{};
  std::memcpy(&six, &storage, sizeof six);
  IpAddress::V6 bytes{};
  std::memcpy(bytes.data(), &six.sin6_addr, bytes.size());
  constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::equal(kMapped.begin(), kMapped.end(), bytes.begin())) {
    return Endpoint{IpAddress::v4({bytes[12], bytes[13], bytes[14], bytes[15]}),
                    ntohs(six.sin6_port)};
  }
  return Endpoint{IpAddress::v6(bytes), ntohs(six.sin6_port)};
}

std::optional<Endpoint> local_endpoint(int fd) noexcept {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  return from_kernel(storage);
}

}  // namespace caisson::egress
