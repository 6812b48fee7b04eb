#include "guest/init/network.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/init/sys.h"
#include "guest/protocol/way_out.h"

namespace caisson::init {

using wire::Endpoint;
using wire::Kind;
using wire::Step;

namespace {

constexpr int kBacklog = 128;
constexpr int kAcceptsPerTurn = 16;

union Address {
  sockaddr any;
  sockaddr_in four;
  sockaddr_in6 six;
};

long answer_of(ssize_t result) { return result < 0 ? -errno : result; }

// An address of IPv4 is one, also where it comes in the clothes of IPv6.
Endpoint endpoint_of(const Address& address) {
  constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  Endpoint out{};
  out.family = static_cast<uint16_t>(wire::Family::V4);
  if (address.any.sa_family == AF_INET) {
    out.port = ntohs(address.four.sin_port);
    memcpy(out.address, &address.four.sin_addr, 4);
    return out;
  }
  out.port = ntohs(address.six.sin6_port);
  const uint8_t* six = address.six.sin6_addr.s6_addr;
  if (memcmp(six, kMapped, sizeof(kMapped)) == 0) {
    memcpy(out.address, six + sizeof(kMapped), 4);
    return out;
  }
  out.family = static_cast<uint16_t>(wire::Family::V6);
  memcpy(out.address, six, sizeof(out.address));
  return out;
}

void refuse(int fd) {
  const linger at_once{1, 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  ::close(fd);
}

}  // namespace

bool Network::open_table() {
  for (int& fd : sockets_) fd = -1;
  uint8_t* memory = map_unshared(carried::Streams::kMemoryBytes);
  streams_.open(memory);
  return memory != nullptr;
}

// ------------------------------------------------------------------------------------ listeners

// Both families by one socket, or the older alone where the kernel has no other.
StartFailure Network::listen_on(uint16_t port) {
  for (uint32_t i = 0; i < listener_count_; ++i) {
    if (ports_[i] == port) return {};
  }
  if (listener_count_ == kListenersMax) return {E2BIG, Step::Network};
  constexpr int kHow = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  const int on = 1;
  const int off = 0;
  Address any{};
  socklen_t size = sizeof(any.six);
  int fd = socket(AF_INET6, kHow, IPPROTO_TCP);
  if (fd >= 0) {
    (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    any.six.sin6_family = AF_INET6;
    any.six.sin6_port = htons(port);
  } else {
    fd = socket(AF_INET, kHow, IPPROTO_TCP);
    any.four.sin_family = AF_INET;
    any.four.sin_port = htons(port);
    size = sizeof(any.four);
  }
  if (fd < 0) return {errno, Step::Network};
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, &any.any, size) != 0 || listen(fd, kBacklog) != 0) {
    const int reason = errno;
    ::close(fd);
    return {reason, Step::Network};
  }
  listeners_[listener_count_] = fd;
  ports_[listener_count_] = port;
  if (!full_) poller_.add(fd, EPOLLIN, Source::Listener, listener_count_);
  ++listener_count_;
  return {};
}

StartFailure Network::bind_questions() {
  questions_ = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);
  if (questions_ < 0) return {errno, Step::Network};
  Address here{};
  here.four.sin_family = AF_INET;
  here.four.sin_port = htons(wire::kQuestionPort);
  here.four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(questions_, &here.any, sizeof(here.four)) != 0) return {errno, Step::Network};
  poller_.add(questions_, EPOLLIN, Source::Questions);
  return {};
}

StartFailure Network::open(const wire::InitConfig& config, wire::Bytes ports) {
  if ((config.flags & wire::kConfigCarryNetwork) == 0) return {};
  StartFailure failure;
  if (!opened_) failure = claim_addresses();
  if (failure.ok() && !opened_) failure = bind_questions();
  opened_ = opened_ || failure.ok();
  for (const uint16_t port : wire::kWayOutPorts) {
    if (failure.ok()) failure = listen_on(port);
  }
  proxy_port_ = config.proxy_port;
  if (failure.ok() && proxy_port_ != 0) failure = listen_on(proxy_port_);
  for (size_t at = 0; failure.ok() && at < ports.size; at += sizeof(uint16_t)) {
    uint16_t port = 0;
    memcpy(&port, ports.data + at, sizeof(port));
    if (port != 0) failure = listen_on(port);
  }
  return failure;
}

// True when there may be another.
bool Network::accept_one(uint32_t index) {
  const uint32_t slot = streams_.allot();
  if (slot == carried::Streams::kNone) {
    // Whoever comes now waits in the kernel's queue, which is short.
    full_ = true;
    for (uint32_t i = 0; i < listener_count_; ++i) poller_.remove(listeners_[i]);
    return false;
  }
  const int fd = accept4(listeners_[index], nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return false;
  Address address{};
  socklen_t size = sizeof(address);
  const bool known = getsockname(fd, &address.any, &size) == 0;
  const Endpoint to = endpoint_of(address);
  if (!known || !wire::is_way_out(to, proxy_port_)) {
    refuse(fd);
    return true;
  }
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockets_[slot] = fd;
  streams_.begin(slot, to);
  return true;
}

void Network::on_listener(uint32_t index) {
  for (int i = 0; i < kAcceptsPerTurn && !full_ && accept_one(index); ++i) {
  }
}

// ------------------------------------------------------------------------------------ questions

// True when there may be another.
bool Network::ask_one() {
  uint8_t* at =
      reserve(sizeof(wire::FrameHeader) + sizeof(wire::DatagramBody) + wire::kDatagramMax);
  asks_ = at == nullptr;
  if (asks_) {
    poller_.remove(questions_);
    return false;
  }
  Address from{};
  static_assert(sizeof(from) <= sizeof(Asker::address));
  socklen_t size = sizeof(from);
  uint8_t* bytes = at + sizeof(wire::FrameHeader) + sizeof(wire::DatagramBody);
  const ssize_t got =
      recvfrom(questions_, bytes, wire::kDatagramMax, MSG_DONTWAIT, &from.any, &size);
  if (got <= 0) return false;
  // The oldest is forgotten, as a resolver that is too slow forgets.
  Asker& asker = askers_[asked_ % wire::kQuestionsMax];
  asker.waits = true;
  asker.id = wire::kCarriedId | (asked_ & ~wire::kCarriedId);
  ++asked_;
  memcpy(asker.address, &from, sizeof(from));
  asker.size = size;
  wire::DatagramBody body{};
  body.to.family = static_cast<uint16_t>(wire::Family::V4);
  body.to.port = wire::kQuestionPort;
  body.to.address[0] = 127;
  body.to.address[3] = 1;
  const auto whole = static_cast<uint32_t>(sizeof(body) + static_cast<size_t>(got));
  const wire::FrameHeader header{whole, static_cast<uint16_t>(Kind::Datagram), 0, asker.id};
  memcpy(at, &header, sizeof(header));
  memcpy(at + sizeof(header), &body, sizeof(body));
  commit(sizeof(header) + whole);
  return true;
}

void Network::on_questions() {
  for (int i = 0; i < kAcceptsPerTurn && ask_one(); ++i) {
  }
}

bool Network::answer(uint32_t id, wire::Bytes payload) {
  wire::DatagramView view;
  if (!wire::parse_datagram(payload, view)) return false;
  Asker& asker = askers_[id % wire::kQuestionsMax];
  if (!asker.waits || asker.id != id) return true;
  asker.waits = false;
  Address to{};
  memcpy(&to, asker.address, sizeof(to));
  (void)sendto(questions_, view.bytes.data, view.bytes.size, MSG_DONTWAIT | MSG_NOSIGNAL, &to.any,
               asker.size);
  return true;
}

// ---------------------------------------------------------------------------------- connections

bool Network::take(const wire::FrameHeader& header, wire::Bytes payload) {
  if (static_cast<Kind>(header.kind) == Kind::Datagram) return answer(header.id, payload);
  return streams_.take(header, payload);
}

void Network::pump() {
  streams_.pump(*this);
  if (full_ && streams_.allot() != carried::Streams::kNone) {
    full_ = false;
    for (uint32_t i = 0; i < listener_count_; ++i)
      poller_.add(listeners_[i], EPOLLIN, Source::Listener, i);
  }
  if (asks_ && link_.room() > Connection::kOutBytes / 2) {
    asks_ = false;
    poller_.add(questions_, EPOLLIN, Source::Questions);
  }
}

void Network::forget() {
  streams_.forget();
  for (Asker& asker : askers_) asker.waits = false;
}

void Network::on_connection(uint32_t index, uint32_t events) {
  if (sockets_[index] < 0 || !watched_[index]) return;
  if (streams_.dialing(index)) {
    int failed = 0;
    socklen_t size = sizeof(failed);
    if (getsockopt(sockets_[index], SOL_SOCKET, SO_ERROR, &failed, &size) != 0) failed = errno;
    return streams_.dialled(index, failed);
  }
  if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) streams_.writable(index);
  if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) streams_.readable(index);
}

// Of the host, to a port of somebody inside.
long Network::dial(uint32_t index, const Endpoint& to) {
  if (!wire::is_loopback(to)) return -EACCES;
  const bool six = to.family == static_cast<uint16_t>(wire::Family::V6);
  const int fd =
      socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  if (fd < 0) return -errno;
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  Address address{};
  if (six) {
    address.six.sin6_family = AF_INET6;
    address.six.sin6_port = htons(to.port);
    memcpy(&address.six.sin6_addr, to.address, sizeof(address.six.sin6_addr));
  } else {
    address.four.sin_family = AF_INET;
    address.four.sin_port = htons(to.port);
    memcpy(&address.four.sin_addr, to.address, sizeof(address.four.sin_addr));
  }
  const long connected =
      answer_of(connect(fd, &address.any, six ? sizeof(address.six) : sizeof(address.four)));
  if (connected < 0 && connected != -EINPROGRESS) {
    ::close(fd);
    return connected;
  }
  sockets_[index] = fd;
  return connected;
}

long Network::read(uint32_t index, uint8_t* to, size_t size) {
  return answer_of(recv(sockets_[index], to, size, MSG_DONTWAIT));
}

long Network::write(uint32_t index, const uint8_t* from, size_t size) {
  return answer_of(send(sockets_[index], from, size, MSG_DONTWAIT | MSG_NOSIGNAL));
}

void Network::end(uint32_t index) { (void)shutdown(sockets_[index], SHUT_WR); }

void Network::watch(uint32_t index, bool reads, bool writes) {
  const uint32_t events = (reads ? EPOLLIN : 0U) | (writes ? EPOLLOUT : 0U);
  const bool wanted = events != 0;
  if (wanted && watched_[index]) poller_.change(sockets_[index], events, Source::Carried, index);
  if (wanted && !watched_[index]) poller_.add(sockets_[index], events, Source::Carried, index);
  if (!wanted && watched_[index]) poller_.remove(sockets_[index]);
  watched_[index] = wanted;
}

void Network::close(uint32_t index, bool reset) {
  if (reset) {
    refuse(sockets_[index]);
  } else {
    ::close(sockets_[index]);
  }
  sockets_[index] = -1;
}

void Network::emptied(uint8_t* memory, size_t size) { (void)madvise(memory, size, MADV_DONTNEED); }

// Behind the answer to one request of the server, which init must be able to give at any time.
uint8_t* Network::reserve(size_t size) {
  return link_.has_room(size + Connection::kReplyRoom) ? link_.reserve(size) : nullptr;
}

void Network::commit(size_t size) { link_.commit(size); }

}  // namespace caisson::init
