#include "sys/socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace caisson::sys {
namespace {

constexpr std::size_t kControlSpace = CMSG_SPACE(sizeof(int) * kMessageFdsMax);

Result<SocketPair> make_pair(int type) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0)
    return sys_failure("make a socket pair", errno);
  return SocketPair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void take_fds(const msghdr& header, std::vector<UniqueFd>& out) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&header), part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      out.emplace_back(fd);
    }
  }
}

}  // namespace

Result<SocketPair> packet_pair() { return make_pair(SOCK_SEQPACKET); }
Result<SocketPair> stream_pair() { return make_pair(SOCK_STREAM); }

Result<void> send_message(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  CAISSON_ASSERT(fds.size() <= kMessageFdsMax);
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, kControlSpace> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
  }
  for (;;) {
    const ssize_t put = ::sendmsg(socket, &header, MSG_NOSIGNAL);
    if (put >= 0) return {};
    if (errno != EINTR) return sys_failure("send a message", errno);
  }
}

Result<Message> receive_message(int socket, std::size_t max) {
  // Most messages are short and the longest is not: ask for the length first, so that a short one
  // costs no large buffer.
  ssize_t size = -1;
  do {
    size = ::recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return sys_failure("receive a message", errno);
  Message message;
  message.bytes.resize(std::min(static_cast<std::size_t>(size), max));
  iovec part{message.bytes.data(), message.bytes.size()};
  alignas(cmsghdr) std::array<std::byte, kControlSpace> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t got = -1;
  do {
    got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return sys_failure("receive a message", errno);
  take_fds(header, message.fds);
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return failure(Errc::Protocol,
                   "receive a message: longer than " + std::to_string(max) + " bytes");
  }
  message.bytes.resize(static_cast<std::size_t>(got));
  return message;
}

Result<PeerIdentity> peer_identity(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return sys_failure("peer credentials", errno);
  }
  return PeerIdentity{credentials.pid, credentials.uid, credentials.gid};
}

}  // namespace caisson::sys
