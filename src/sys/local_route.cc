#include "sys/local_route.h"

#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/unique_fd.h"

namespace caisson::sys {
namespace {

constexpr std::uint32_t kLoopbackIndex = 1;  // the first interface of every network
constexpr std::size_t kAddressBytesMax = 16;

struct Attribute {
  rtattr head;
  std::uint8_t bytes[kAddressBytesMax];
};

// One message, laid out as the kernel reads it: the head, what it is about, then its parts.
template <class About>
struct Wish {
  nlmsghdr head;
  About about;
  Attribute parts[2];
};

template <class About>
void put(Wish<About>& wish, std::uint16_t kind, const void* bytes, std::size_t size) {
  if (wish.head.nlmsg_len == 0) wish.head.nlmsg_len = NLMSG_LENGTH(sizeof(About));
  auto* at = reinterpret_cast<std::byte*>(&wish) + wish.head.nlmsg_len;
  const rtattr head{static_cast<std::uint16_t>(RTA_LENGTH(size)), kind};
  std::memcpy(at, &head, sizeof(head));
  std::memcpy(at + sizeof(head), bytes, size);
  wish.head.nlmsg_len += static_cast<std::uint32_t>(RTA_SPACE(size));
}

Result<void> read_answer(int socket, const char* what) {
  alignas(nlmsghdr) std::byte bytes[512];
  const ssize_t got = ::recv(socket, bytes, sizeof(bytes), 0);
  if (got < 0) return sys_failure(what, errno);
  nlmsghdr head{};
  nlmsgerr answer{};
  if (static_cast<std::size_t>(got) < NLMSG_LENGTH(sizeof(answer)))
    return failure(Errc::Protocol, std::string(what) + ": the kernel's answer is too short");
  std::memcpy(&head, bytes, sizeof(head));
  std::memcpy(&answer, NLMSG_DATA(bytes), sizeof(answer));
  if (head.nlmsg_type != NLMSG_ERROR)
    return failure(Errc::Protocol, std::string(what) + ": the kernel answered something else");
  if (answer.error != 0 && answer.error != -EEXIST) return sys_failure(what, -answer.error);
  return {};
}

template <class About>
Result<void> ask(Wish<About>& wish, std::uint16_t kind, const char* what) {
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket) return sys_failure("netlink", errno);
  wish.head.nlmsg_type = kind;
  wish.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
  if (::send(socket.get(), &wish, wish.head.nlmsg_len, 0) < 0) return sys_failure(what, errno);
  return read_answer(socket.get(), what);
}

std::uint8_t family_of(std::span<const std::uint8_t> address) {
  CAISSON_ASSERT(address.size() == 4 || address.size() == kAddressBytesMax);
  return address.size() == 4 ? AF_INET : AF_INET6;
}

}  // namespace

Result<void> add_local_route(std::span<const std::uint8_t> address, unsigned bits) {
  CAISSON_ASSERT(bits <= address.size() * 8);
  Wish<rtmsg> wish{};
  wish.about.rtm_family = family_of(address);
  wish.about.rtm_dst_len = static_cast<std::uint8_t>(bits);
  wish.about.rtm_table = RT_TABLE_LOCAL;
  wish.about.rtm_protocol = RTPROT_STATIC;
  wish.about.rtm_scope = address.size() == 4 ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE;
  wish.about.rtm_type = RTN_LOCAL;
  put(wish, RTA_DST, address.data(), address.size());
  put(wish, RTA_OIF, &kLoopbackIndex, sizeof(kLoopbackIndex));
  return ask(wish, RTM_NEWROUTE, "add a local route");
}

Result<void> add_loopback_address(std::span<const std::uint8_t> address) {
  Wish<ifaddrmsg> wish{};
  wish.about.ifa_family = family_of(address);
  wish.about.ifa_prefixlen = static_cast<std::uint8_t>(address.size() * 8);
  wish.about.ifa_index = kLoopbackIndex;
  put(wish, IFA_LOCAL, address.data(), address.size());
  put(wish, IFA_ADDRESS, address.data(), address.size());
  return ask(wish, RTM_NEWADDR, "add an address to lo");
}

}  // namespace caisson::sys
