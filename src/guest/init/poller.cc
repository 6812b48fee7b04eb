#include "guest/init/poller.h"

#include <sys/epoll.h>

namespace caisson::init {
namespace {

epoll_event describe(uint32_t events, Source source, uint32_t index) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = (static_cast<uint64_t>(source) << 32U) | index;
  return event;
}

}  // namespace

bool Poller::open() {
  fd_ = epoll_create1(EPOLL_CLOEXEC);
  return fd_ >= 0;
}

void Poller::add(int fd, uint32_t events, Source source, uint32_t index) {
  epoll_event event = describe(events, source, index);
  epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event);
}

void Poller::change(int fd, uint32_t events, Source source, uint32_t index) {
  epoll_event event = describe(events, source, index);
  epoll_ctl(fd_, EPOLL_CTL_MOD, fd, &event);
}

void Poller::remove(int fd) { epoll_ctl(fd_, EPOLL_CTL_DEL, fd, nullptr); }

int Poller::wait(Ready out[kReadyMax], int timeout_ms) {
  epoll_event events[kReadyMax];
  const int count = epoll_wait(fd_, events, kReadyMax, timeout_ms);
  for (int i = 0; i < count; ++i) {
    out[i] = Ready{static_cast<Source>(events[i].data.u64 >> 32U),
                   static_cast<uint32_t>(events[i].data.u64 & 0xffffffffU), events[i].events};
  }
  return count < 0 ? 0 : count;
}

}  // namespace caisson::init
