#include "guest/carrier/network.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/protocol/way_out.h"

namespace caisson::carrier {
namespace {

union Address {
  sockaddr any;
  sockaddr_in four;
  sockaddr_in6 six;
};

socklen_t fill(Address& address, const wire::Endpoint& to) {
  memset(&address, 0, sizeof(address));
  if (to.family == static_cast<uint16_t>(wire::Family::V6)) {
    address.six.sin6_family = AF_INET6;
    address.six.sin6_port = htons(to.port);
    memcpy(&address.six.sin6_addr, to.address, sizeof(address.six.sin6_addr));
    return sizeof(address.six);
  }
  address.four.sin_family = AF_INET;
  address.four.sin_port = htons(to.port);
  memcpy(&address.four.sin_addr, to.address, sizeof(address.four.sin_addr));
  return sizeof(address.four);
}

int family_of(const wire::Endpoint& to) {
  return to.family == static_cast<uint16_t>(wire::Family::V6) ? AF_INET6 : AF_INET;
}

long answer(ssize_t result) { return result < 0 ? -errno : result; }

}  // namespace

void watch_fd(int epoll, int how, int fd, uint32_t events, Source source, uint32_t index) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = (static_cast<uint64_t>(source) << 32U) | index;
  (void)epoll_ctl(epoll, how, fd, &event);
}

void Network::open(int epoll, Core& core) {
  epoll_ = epoll;
  core_ = &core;
  for (int& fd : sockets_) fd = -1;
}

// ---------------------------------------------------------------------------------- connections

long Network::dial(uint32_t index, const wire::Endpoint& to) {
  if (!wire::is_way_out(to, core_->proxy_port())) return -EACCES;
  const int fd = socket(family_of(to), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  if (fd < 0) return -errno;
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  Address address;
  const socklen_t size = fill(address, to);
  const long connected = answer(connect(fd, &address.any, size));
  if (connected < 0 && connected != -EINPROGRESS) {
    ::close(fd);
    return connected;
  }
  sockets_[index] = fd;
  return connected;
}

long Network::read(uint32_t index, uint8_t* to, size_t size) {
  return answer(recv(sockets_[index], to, size, MSG_DONTWAIT));
}

long Network::write(uint32_t index, const uint8_t* from, size_t size) {
  return answer(send(sockets_[index], from, size, MSG_DONTWAIT | MSG_NOSIGNAL));
}

void Network::end(uint32_t index) { (void)shutdown(sockets_[index], SHUT_WR); }

// Out of the set while nothing is wanted of it: that it has hung up is reported in any case.
void Network::watch(uint32_t index, bool reads, bool writes) {
  const uint32_t events = (reads ? EPOLLIN : 0U) | (writes ? EPOLLOUT : 0U);
  const bool wanted = events != 0;
  if (!wanted && !watched_[index]) return;
  const int how = !wanted ? EPOLL_CTL_DEL : watched_[index] ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  watch_fd(epoll_, how, sockets_[index], events, Source::Connection, index);
  watched_[index] = wanted;
}

void Network::close(uint32_t index, bool reset) {
  const linger at_once{1, 0};
  if (reset) (void)setsockopt(sockets_[index], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  ::close(sockets_[index]);
  sockets_[index] = -1;
}

void Network::emptied(uint8_t* memory, size_t size) { (void)madvise(memory, size, MADV_DONTNEED); }

void Network::on_connection(uint32_t index, uint32_t events) {
  if (sockets_[index] < 0 || !watched_[index]) return;  // gone since the event was taken
  carried::Streams& streams = core_->streams();
  if (streams.dialing(index)) {
    int failed = 0;
    socklen_t size = sizeof(failed);
    if (getsockopt(sockets_[index], SOL_SOCKET, SO_ERROR, &failed, &size) != 0) failed = errno;
    return streams.dialled(index, failed);
  }
  if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) streams.writable(index);
  if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) streams.readable(index);
}

// ------------------------------------------------------------------------------------ questions

void Network::forget(Question& question) {
  if (question.fd < 0) return;
  watch_fd(epoll_, EPOLL_CTL_DEL, question.fd, 0, Source::Question);
  ::close(question.fd);
  question.fd = -1;
}

// A socket for each question: a late answer to an older one meets nobody.
void Network::ask(uint32_t id, const wire::Endpoint& to, wire::Bytes bytes) {
  const uint32_t index = id % wire::kQuestionsMax;
  Question& question = questions_[index];
  forget(question);
  if (!wire::is_loopback(to) || to.port != wire::kQuestionPort) return;
  const int fd = socket(family_of(to), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);
  if (fd < 0) return;
  Address address;
  const socklen_t size = fill(address, to);
  if (connect(fd, &address.any, size) != 0 ||
      send(fd, bytes.data, bytes.size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    ::close(fd);
    return;
  }
  question = Question{fd, id, to};
  watch_fd(epoll_, EPOLL_CTL_ADD, fd, EPOLLIN, Source::Question, index);
}

void Network::on_question(uint32_t index) {
  Question& question = questions_[index];
  if (question.fd < 0) return;
  static uint8_t bytes[wire::kDatagramMax];
  const ssize_t got = recv(question.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got >= 0) core_->answer(question.id, question.to, {bytes, static_cast<size_t>(got)});
  forget(question);
}

}  // namespace caisson::carrier
