#include "cli/serve_sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "sys/file.h"

namespace caisson::cli {
namespace {

constexpr int kQueuedMax = 4096;  // the kernel cuts it to its own
using Family = policy::ListenAddress::Family;

struct Bound {
  sockaddr_storage storage{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  template <class T>
  static Bound of(const T& address) {
    Bound bound;
    std::memcpy(&bound.storage, &address, sizeof(address));
    bound.size = sizeof(address);
    return bound;
  }
};

Result<Bound> kernel_address(const policy::ListenAddress& address) {
  const auto wrong = [&] { return bad_field("listen", "listen: '" + to_string(address) + "'"); };
  if (address.family == Family::Ip4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    if (::inet_pton(AF_INET, address.host.c_str(), &in.sin_addr) != 1) return wrong();
    return Bound::of(in);
  }
  if (address.family == Family::Ip6) {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(address.port);
    if (::inet_pton(AF_INET6, address.host.c_str(), &in.sin6_addr) != 1) return wrong();
    return Bound::of(in);
  }
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  if (address.host.size() >= sizeof(un.sun_path)) return wrong();
  std::memcpy(un.sun_path, address.host.c_str(), address.host.size() + 1);
  return Bound::of(un);
}

// The name is free, or a socket on which nobody listens any more.
Result<void> make_room(const std::string& path, const Bound& address) {
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0) return {};
  if (!S_ISSOCK(facts.st_mode))
    return bad_field("listen", "listen: '" + path + "' exists and is no socket");
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(probe.get(), address.get(), address.size) == 0 || errno != ECONNREFUSED)
    return failure(Errc::Busy, "listen: somebody listens on '" + path + "' already");
  if (::unlink(path.c_str()) != 0) return sys_failure("remove " + path, errno);
  return {};
}

Result<void> give_to_server(const std::string& path, const ServerIdentity& server) {
  if (::lchown(path.c_str(), server.uid, server.gid) != 0)
    return sys_failure("chown " + path, errno);
  return {};
}

}  // namespace

Result<UniqueFd> listen_on(const policy::ListenAddress& address, const ServerIdentity& server) {
  const Bound bound = TRY(kernel_address(address));
  const bool is_unix = address.family == Family::Unix;
  UniqueFd socket(::socket(bound.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return sys_failure("listen on " + to_string(address), errno);
  const int on = 1;
  if (!is_unix) (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.family == Family::Ip6)
    (void)::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  if (is_unix) TRY(make_room(address.host, bound));
  {
    const sys::ModeMask mask(0117);
    if (::bind(socket.get(), bound.get(), bound.size) != 0)
      return sys_failure("listen on " + to_string(address), errno);
  }
  if (is_unix) TRY(give_to_server(address.host, server));
  if (::listen(socket.get(), kQueuedMax) != 0)
    return sys_failure("listen on " + to_string(address), errno);
  return socket;
}

Result<policy::ListenAddress> address_of(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  int listening = 0;
  socklen_t listening_size = sizeof(listening);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0 ||
      ::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listening, &listening_size) != 0 ||
      listening == 0)
    return bad_field("listen", "descriptor " + std::to_string(socket) + " is no listening socket");
  policy::ListenAddress address;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &storage, sizeof(in));
    address.family = Family::Ip4;
    address.port = ntohs(in.sin_port);
    address.host = ::inet_ntop(AF_INET, &in.sin_addr, text.data(), text.size());
  } else if (storage.ss_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &storage, sizeof(in));
    address.family = Family::Ip6;
    address.port = ntohs(in.sin6_port);
    address.host = ::inet_ntop(AF_INET6, &in.sin6_addr, text.data(), text.size());
  } else if (storage.ss_family == AF_UNIX) {
    sockaddr_un un{};
    std::memcpy(&un, &storage, sizeof(un));
    address.family = Family::Unix;
    address.port = 0;
    address.host = std::string(un.sun_path, ::strnlen(un.sun_path, sizeof(un.sun_path)));
  } else {
    return bad_field("listen",
                     "descriptor " + std::to_string(socket) + " is no TCP or unix socket");
  }
  return address;
}

}  // namespace caisson::cli
