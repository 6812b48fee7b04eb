#include "engine/native/gate_sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "policy/way_out.h"
#include "sys/file.h"
#include "sys/local_route.h"
#include "sys/namespace.h"
#include "sys/steering.h"

namespace caisson::engine::native {
namespace {

constexpr int kBacklog = 128;

// Ours on 127.0.0.1 and ::1, whatever the rules say. The proxy's own is the first.
std::vector<std::uint16_t> own_ports(std::uint16_t proxy) {
  std::vector<std::uint16_t> ports{policy::kProxyPort, policy::kSocksPort, policy::kResolverPort};
  if (proxy != 0 && std::ranges::find(ports, proxy) == ports.end()) ports.push_back(proxy);
  return ports;
}

// Both families by one socket, or the older alone where the kernel has no other.
Result<UniqueFd> listen_on(std::uint16_t port) {
  UniqueFd made(::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  const bool six = static_cast<bool>(made);
  if (!six)
    made = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!made) return sys_failure("make a listener", errno);
  const int on = 1;
  const int off = 0;
  (void)::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  int bound = -1;
  if (six) {
    (void)::setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    bound = ::bind(made.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any));
  } else {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    bound = ::bind(made.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any));
  }
  if (bound != 0 || ::listen(made.get(), kBacklog) != 0)
    return sys_failure("listen on port " + std::to_string(port) + " inside", errno);
  return made;
}

Result<UniqueFd> bind_resolver() {
  UniqueFd made(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP));
  if (!made) return sys_failure("make the resolver's socket", errno);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  here.sin_port = htons(policy::kResolverPort);
  if (::bind(made.get(), reinterpret_cast<const sockaddr*>(&here), sizeof(here)) != 0)
    return sys_failure("bind the resolver inside", errno);
  return made;
}

Result<UniqueFd> steer_to(int listener, std::span<const std::uint16_t> own) {
  const UniqueFd here = TRY(sys::open_at(AT_FDCWD, "/proc/thread-self/ns/net", O_RDONLY));
  sys::Steered what;
  what.v4 = policy::kSyntheticV4;
  what.v4_bits = policy::kSyntheticV4Bits;
  std::copy_n(policy::kSyntheticV6.begin(), what.v6.size(), what.v6.begin());
  what.loopback = own;
  return sys::steer(here.get(), listener, what);
}

// A kernel without IPv6 has nothing to route, and programs there ask for no such address.
Result<void> if_there(Result<void> six) {
  if (!six && six.error().sys_errno != EAFNOSUPPORT && six.error().sys_errno != EOPNOTSUPP)
    return std::unexpected(six.error());
  return {};
}

// Beside the ranges, one address of each on lo itself: a resolver that is asked for the families
// that this machine has (AI_ADDRCONFIG) does not count 127.0.0.1 and ::1.
Result<void> route_to_us() {
  TRY(sys::add_local_route(policy::kSyntheticV4, policy::kSyntheticV4Bits));
  TRY(if_there(sys::add_local_route(policy::kSyntheticV6, policy::kSyntheticV6Bits)));
  auto four = policy::kSyntheticV4;
  auto six = policy::kSyntheticV6;
  four.back() = 1;
  six.back() = 1;
  TRY(sys::add_loopback_address(four));
  return if_there(sys::add_loopback_address(six));
}

}  // namespace

Result<GateSockets> open_gate_in(int target, const std::vector<std::uint16_t>& ports,
                                 std::uint16_t proxy) {
  const auto visit = TRY(sys::NetworkNamespaceVisit::begin(target));
  const std::vector<std::uint16_t> own = own_ports(proxy);
  GateSockets made;
  TRY(route_to_us());
  made.resolver = TRY(bind_resolver());
  made.listeners.push_back(TRY(listen_on(policy::kProxyPort)));
  auto steering = steer_to(made.listeners.front().get(), own);
  if (steering) {
    made.steering = std::move(*steering);
    return made;
  }
  // Without steering a connection arrives only where somebody listens: on the ports of the rules.
  for (const std::uint16_t port : std::span(own).subspan(1))
    made.listeners.push_back(TRY(listen_on(port)));
  for (const std::uint16_t port : ports) {
    if (std::ranges::find(own, port) != own.end()) continue;
    made.listeners.push_back(TRY(listen_on(port)));
  }
  return made;
}

}  // namespace caisson::engine::native
