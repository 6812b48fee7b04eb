#include "http/origin.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstring>

namespace caisson::http {
namespace {

Origin from_v4(const in_addr& address, std::uint16_t port) {
  std::array<char, INET_ADDRSTRLEN> text{};
  (void)::inet_ntop(AF_INET, &address, text.data(), text.size());
  Origin origin;
  origin.peer.address = text.data();
  origin.peer.port = port;
  origin.peer.local = (ntohl(address.s_addr) >> 24U) == 127;
  origin.key.assign(reinterpret_cast<const char*>(&address), sizeof address);
  return origin;
}

Origin from_v6(const sockaddr_in6& socket) {
  const std::uint16_t port = ntohs(socket.sin6_port);
  const in6_addr& address = socket.sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    // The same client must not be two clients because the listener has two families.
    in_addr inner{};
    std::memcpy(&inner, &address.s6_addr[12], sizeof inner);
    return from_v4(inner, port);
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  (void)::inet_ntop(AF_INET6, &address, text.data(), text.size());
  Origin origin;
  origin.peer.address = text.data();
  origin.peer.port = port;
  origin.peer.local = IN6_IS_ADDR_LOOPBACK(&address);
  constexpr std::size_t kPrefixBytes = 8;
  origin.key.assign(reinterpret_cast<const char*>(&address), kPrefixBytes);
  return origin;
}

}  // namespace

Origin origin_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    return from_v4(v4.sin_addr, ntohs(v4.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof v6);
    return from_v6(v6);
  }
  Origin origin;
  origin.peer.address = "unix";
  origin.peer.local = true;
  origin.key = "unix";
  return origin;
}

}  // namespace caisson::http
