// guest/init/poller.h — the epoll set. Level-triggered: a source that is not wanted is taken out,
// since a hang-up is reported whether it was asked for or not. A descriptor leaves the set before
// it is closed: a half-made child may still hold a copy, and the kernel would go on reporting it.
#pragma once

#include <stdint.h>

namespace caisson::init {

enum class Source : uint32_t {
  Control,
  Link,
  Children,  // the signalfd
  Output,    // of a process, stream 1
  Error,     // of a process, stream 2
  Input,     // of a process
  Report,    // of a process that is not yet known to run
  Group,     // of a process whose tree was killed
  OpSocket,
  OpInput,
  Listener,  // of carried connections
  Carried,   // one of them
  Questions,
};

struct Ready {
  Source source;
  uint32_t index;
  uint32_t events;
};

class Poller {
 public:
  static constexpr int kReadyMax = 64;

  bool open();
  void add(int fd, uint32_t events, Source source, uint32_t index = 0);
  void change(int fd, uint32_t events, Source source, uint32_t index = 0);
  void remove(int fd);
  int wait(Ready out[kReadyMax], int timeout_ms);  // how many are ready

 private:
  int fd_ = -1;
};

}  // namespace caisson::init
