#include "engine/native/network_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include <cerrno>

#include "sys/file.h"

namespace caisson::engine::native {

Result<UniqueFd> socket_in_network_of(int pidfd, int family) {
  if (family != AF_INET && family != AF_INET6) {
    return failure(Errc::InvalidArgument,
                   "family: " + std::to_string(family) + " is neither AF_INET nor AF_INET6");
  }
  const UniqueFd own = TRY(sys::open_at(AT_FDCWD, "/proc/self/ns/net", O_RDONLY));
  if (::setns(pidfd, CLONE_NEWNET) != 0) {
    const int reason = errno;
    if (reason == ESRCH) return failure(Errc::Gone, "the sandbox has ended");
    return sys_failure("enter the sandbox's network", reason);
  }
  UniqueFd made(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  const int reason = errno;
  // Staying would put whatever is made next into one tenant's network: better no launcher than that
  // one.
  CAISSON_ASSERT(::setns(own.get(), CLONE_NEWNET) == 0);
  if (!made) return sys_failure("make a socket in the sandbox's network", reason);
  return made;
}

}  // namespace caisson::engine::native
