#include "egress/gate/dial.h"

#include <sys/socket.h>

#include <cerrno>

#include "egress/gate/socket_address.h"

namespace caisson::egress {

namespace {

boost::asio::awaitable<Result<void>> connect(Stream& stream, Deadline& deadline, IpAddress address,
                                             std::uint16_t port, milliseconds limit) {
  const KernelAddress to = to_kernel(address, port);
  UniqueFd fd(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) co_return sys_failure("socket", errno);
  const int outcome = ::connect(fd.get(), to.get(), to.size);
  const int reason = errno;
  if (outcome != 0 && reason != EINPROGRESS) co_return sys_failure("connect", reason);
  const auto assigned = stream.assign(std::move(fd));
  if (!assigned) co_return assigned;
  if (outcome == 0) co_return Result<void>();
  deadline.set(limit);
  const bool ready = co_await stream.wait_write();
  if (deadline.passed()) co_return failure(Errc::TimedOut, "connect: no answer in time");
  if (!ready) co_return failure(Errc::Gone, "connect: given up");
  deadline.clear();
  int failed = 0;
  socklen_t size = sizeof failed;
  if (::getsockopt(stream.fd(), SOL_SOCKET, SO_ERROR, &failed, &size) != 0) failed = errno;
  if (failed != 0) co_return sys_failure("connect", failed);
  co_return Result<void>();
}

}  // namespace

boost::asio::awaitable<Result<IpAddress>> dial(Stream& stream, Deadline& deadline,
                                               std::vector<IpAddress> addresses, std::uint16_t port,
                                               milliseconds each) {
  Error last{Errc::NotFound, "no address to connect to"};
  if (addresses.size() > kDialAddressesMax) addresses.resize(kDialAddressesMax, addresses[0]);
  for (const IpAddress& address : addresses) {
    const auto connected = co_await connect(stream, deadline, address, port, each);
    deadline.clear();
    if (connected) co_return address;
    stream.close();
    last = connected.error();
    if (last.code == Errc::Gone) break;
  }
  co_return std::unexpected(last);
}

}  // namespace caisson::egress
