// lo with the way out's addresses. One of each range with its prefix: an IPv4 prefix on lo is local
// as a whole, for IPv6 a route says so.
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/init/network.h"
#include "guest/init/sys.h"
#include "guest/protocol/way_out.h"

namespace caisson::init {
namespace {

using wire::Step;

constexpr int kLoopbackIndex = 1;  // the first interface of every network

struct Part {
  rtattr head;
  uint8_t bytes[16];
};

template <class About>
struct Wish {
  nlmsghdr head;
  About about;
  Part parts[2];
};

template <class About>
void put(Wish<About>& wish, uint16_t kind, const void* bytes, size_t size) {
  if (wish.head.nlmsg_len == 0) wish.head.nlmsg_len = NLMSG_LENGTH(sizeof(About));
  uint8_t* at = reinterpret_cast<uint8_t*>(&wish) + wish.head.nlmsg_len;
  const rtattr head{static_cast<uint16_t>(RTA_LENGTH(size)), kind};
  memcpy(at, &head, sizeof(head));
  memcpy(at + sizeof(head), bytes, size);
  wish.head.nlmsg_len += static_cast<uint32_t>(RTA_SPACE(size));
}

// 0, or -errno; what is there already is as wished.
template <class About>
long ask(Wish<About>& wish, uint16_t kind) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return -errno;
  wish.head.nlmsg_type = kind;
  wish.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
  struct {
    nlmsghdr head;
    nlmsgerr error;
    uint8_t rest[256];
  } answer{};
  long result = send(fd, &wish, wish.head.nlmsg_len, 0) < 0 ? -errno : 0;
  if (result == 0 && recv(fd, &answer, sizeof(answer), 0) < 0) result = -errno;
  close_fd(fd);
  if (result != 0) return result;
  if (answer.head.nlmsg_type != NLMSG_ERROR) return -EPROTO;
  return answer.error.error == -EEXIST ? 0 : answer.error.error;
}

long add_address(int family, const uint8_t* address, size_t size, unsigned bits) {
  Wish<ifaddrmsg> wish{};
  wish.about.ifa_family = static_cast<uint8_t>(family);
  wish.about.ifa_prefixlen = static_cast<uint8_t>(bits);
  wish.about.ifa_index = kLoopbackIndex;
  put(wish, IFA_LOCAL, address, size);
  put(wish, IFA_ADDRESS, address, size);
  return ask(wish, RTM_NEWADDR);
}

long add_local_route(const uint8_t* address, size_t size, unsigned bits) {
  Wish<rtmsg> wish{};
  wish.about.rtm_family = AF_INET6;
  wish.about.rtm_dst_len = static_cast<uint8_t>(bits);
  wish.about.rtm_table = RT_TABLE_LOCAL;
  wish.about.rtm_protocol = RTPROT_STATIC;
  wish.about.rtm_scope = RT_SCOPE_UNIVERSE;
  wish.about.rtm_type = RTN_LOCAL;
  put(wish, RTA_DST, address, size);
  put(wish, RTA_OIF, &kLoopbackIndex, sizeof(kLoopbackIndex));
  return ask(wish, RTM_NEWROUTE);
}

long bring_up() {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  ifreq wish{};
  memcpy(wish.ifr_name, "lo", 3);
  long result = ioctl(fd, SIOCGIFFLAGS, &wish) != 0 ? -errno : 0;
  if (result == 0 && (wish.ifr_flags & IFF_UP) == 0) {
    wish.ifr_flags = static_cast<short>(wish.ifr_flags | IFF_UP);
    if (ioctl(fd, SIOCSIFFLAGS, &wish) != 0) result = -errno;
  }
  close_fd(fd);
  return result;
}

bool has_six() {
  int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool there = fd >= 0;
  close_fd(fd);
  return there;
}

}  // namespace

StartFailure claim_addresses() {
  long done = bring_up();
  uint8_t four[4];
  memcpy(four, wire::kWayOutV4, sizeof(four));
  four[3] = 1;
  if (done == 0) done = add_address(AF_INET, four, sizeof(four), wire::kWayOutV4Bits);
  if (done != 0) return {static_cast<int>(-done), Step::Network};
  if (!has_six()) return {};
  uint8_t six[16];
  memcpy(six, wire::kWayOutV6, sizeof(six));
  // A kernel that takes no such route (gVisor's) shall have no such address either: a program would
  // try the range first and wait there, instead of being told to go by IPv4.
  if (add_local_route(six, sizeof(six), wire::kWayOutV6Bits) != 0) return {};
  six[15] = 1;
  (void)add_address(AF_INET6, six, sizeof(six), wire::kWayOutV6Bits);
  return {};
}

}  // namespace caisson::init
