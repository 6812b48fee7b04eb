#include "engine/native/network_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "sys/namespace.h"

namespace caisson::engine::native {

Result<UniqueFd> socket_in_network_of(int pidfd, int family) {
  if (family != AF_INET && family != AF_INET6) {
    return failure(Errc::InvalidArgument,
                   "family: " + std::to_string(family) + " is neither AF_INET nor AF_INET6");
  }
  const auto visit = TRY(sys::NetworkNamespaceVisit::begin(pidfd));
  UniqueFd made(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!made) return sys_failure("make a socket in the sandbox's network", errno);
  return made;
}

}  // namespace caisson::engine::native
