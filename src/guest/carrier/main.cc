// Moves bytes between three sockets, as the core says. One thread, one epoll set, level-triggered.
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/carrier/carrier.h"
#include "guest/carrier/network.h"

namespace caisson::carrier {
namespace {

using wire::ControlKind;

// After Shutdown: how long init may take to end by itself.
constexpr int kEndWaitMs = 1000;

constexpr int kEventsMax = 64;

uint8_t* map(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<uint8_t*>(at);
}

[[noreturn]] void give_up(int sys_errno, wire::Step step) {
  const wire::ControlFailed message{{wire::kVersion, static_cast<uint32_t>(ControlKind::Failed)},
                                    sys_errno,
                                    static_cast<uint32_t>(step)};
  (void)send(wire::kFdControl, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
  _exit(1);
}

// The launcher's socket first: who sees the server's one end and then asks why must not be told
// that all is well.
[[noreturn]] void end(int status) {
  (void)shutdown(wire::kFdControl, SHUT_RDWR);
  _exit(status);
}

bool is_stream_socket(int fd) {
  int type = 0;
  socklen_t size = sizeof(type);
  return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

// recvmsg without waiting. `fd` becomes the one descriptor that came along, or -1.
ssize_t receive_with_descriptor(int socket, void* to, size_t size, int& fd) {
  fd = -1;
  iovec data{to, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof(int));
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
  if (got < 0) return got;
  const cmsghdr* part = CMSG_FIRSTHDR(&message);
  const bool rights =
      part != nullptr && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS;
  if (rights && part->cmsg_len >= CMSG_LEN(sizeof(int))) memcpy(&fd, CMSG_DATA(part), sizeof(int));
  return got;
}

bool later(ssize_t result) { return result < 0 && (errno == EAGAIN || errno == EINTR); }

// As many descriptors as there may be: each connection needs one.
void raise_own_limits() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &files);
}

class Carrier final : public Hands {
 public:
  Carrier(uint8_t* memory, uint8_t* connections, uint8_t* message, uint64_t salt)
      : core_(*this, network_, memory, connections, salt), message_(message) {}

  void begin() {
    prctl(PR_SET_NAME, "caisson-carrier", 0, 0, 0);
    if (!is_stream_socket(wire::kFdCarried)) give_up(EBADF, wire::Step::Stdio);
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) give_up(errno, wire::Step::Pipe);
    network_.open(epoll_, core_);
    // Of what stands beside us, which belongs to us: nobody asks how it ended.
    (void)signal(SIGCHLD, SIG_IGN);
    raise_own_limits();
    const long confined = confine();
    if (confined < 0) give_up(static_cast<int>(-confined), wire::Step::Seccomp);
    watch(EPOLL_CTL_ADD, wire::kFdControl, EPOLLIN, Source::Control);
    watch(EPOLL_CTL_ADD, init_, EPOLLIN, Source::Init);
    control_events_ = init_events_ = EPOLLIN;
    if (is_stream_socket(wire::kFdStream)) early_ = wire::kFdStream;
  }

  [[noreturn]] void serve() {
    for (;;) {
      core_.pump();
      flush();
      if (core_.state() == Core::State::Broken || core_.state() == Core::State::Failed) end(1);
      arm();
      const bool over = core_.state() == Core::State::Over;
      epoll_event events[kEventsMax];
      const int count = epoll_wait(epoll_, events, kEventsMax, wait_ms(over));
      if (over && count == 0) end(0);
      for (int i = 0; i < count; ++i) handle(events[i]);
    }
  }

  void tell(const void* message, size_t size) override {
    (void)send(wire::kFdControl, message, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  void ask(uint32_t id, const wire::Endpoint& to, wire::Bytes question) override {
    network_.ask(id, to, question);
  }

  void drop_server() override {
    flush_server();  // what it was owed before
    close_server();
  }

 private:
  void watch(int how, int fd, uint32_t events, Source source) const {
    watch_fd(epoll_, how, fd, events, source);
  }

  // Room that came with the last flush has no event of its own.
  [[nodiscard]] int wait_ms(bool over) const {
    if (core_.for_init().size == 0 && core_.waits()) return 0;
    return over ? kEndWaitMs : -1;
  }

  void close_server() {
    if (server_ < 0) return;
    watch(EPOLL_CTL_DEL, server_, 0, Source::Server);
    close(server_);
    server_ = -1;
  }

  void adopt(int fd) {
    close_server();
    server_ = fd;
    server_events_ = EPOLLIN;
    watch(EPOLL_CTL_ADD, server_, server_events_, Source::Server);
    core_.attach();
  }

  void arm() {
    const uint32_t control = core_.wants_control() ? EPOLLIN : 0U;
    if (control != control_events_)
      watch(EPOLL_CTL_MOD, wire::kFdControl, control_events_ = control, Source::Control);
    const uint32_t init =
        (core_.wants_init() ? EPOLLIN : 0U) | (core_.for_init().size != 0 ? EPOLLOUT : 0U);
    if (init_ >= 0 && init != init_events_)
      watch(EPOLL_CTL_MOD, init_, init_events_ = init, Source::Init);
    if (server_ < 0) return;
    const uint32_t server =
        (core_.wants_server() ? EPOLLIN : 0U) | (core_.for_server().size != 0 ? EPOLLOUT : 0U);
    if (server != server_events_)
      watch(EPOLL_CTL_MOD, server_, server_events_ = server, Source::Server);
  }

  void flush() {
    while (init_ >= 0 && core_.for_init().size != 0) {
      const wire::Bytes bytes = core_.for_init();
      const ssize_t sent = send(init_, bytes.data, bytes.size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (later(sent)) break;
      if (sent < 0) {
        init_left();
        break;
      }
      core_.init_took(static_cast<size_t>(sent));
    }
    if (server_ >= 0 && !flush_server()) {
      close_server();
      core_.server_left();
    }
  }

  // False when the server is gone.
  bool flush_server() {
    while (core_.for_server().size != 0) {
      const wire::Bytes bytes = core_.for_server();
      const ssize_t sent = send(server_, bytes.data, bytes.size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (later(sent)) return true;
      if (sent < 0) return false;
      core_.server_took(static_cast<size_t>(sent));
    }
    return true;
  }

  void handle(const epoll_event& event) {
    const auto index = static_cast<uint32_t>(event.data.u64);
    switch (static_cast<Source>(event.data.u64 >> 32U)) {
      case Source::Control:
        return on_control();
      case Source::Init:
        if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) on_init();
        return;
      case Source::Server:
        if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) on_server(event.events);
        return;
      case Source::Connection:
        return network_.on_connection(index, event.events);
      case Source::Question:
        return network_.on_question(index);
    }
  }

  void on_control() {
    int fd = -1;
    const ssize_t got = receive_with_descriptor(wire::kFdControl, message_, wire::kControlMax, fd);
    if (later(got)) return;
    if (got <= 0) _exit(0);  // the launcher is gone
    const auto size = static_cast<size_t>(got);
    wire::ControlHeader header{};
    const bool fits = size >= sizeof(header) && size <= wire::kControlMax;
    if (fits) memcpy(&header, message_, sizeof(header));
    const bool ours = fits && header.version == wire::kVersion;
    if (ours && header.kind == static_cast<uint32_t>(ControlKind::Attach)) {
      if (is_stream_socket(fd)) return adopt(fd);
    } else if (ours && header.kind == static_cast<uint32_t>(ControlKind::Connect)) {
      // Refused is closed: whoever has the other end reads nothing but the end.
      const uint32_t index =
          is_stream_socket(fd) ? core_.connect({message_, size}) : carried::Streams::kNone;
      if (index != carried::Streams::kNone) return network_.adopt(index, fd);
    } else if (ours && header.kind == static_cast<uint32_t>(ControlKind::Carry)) {
      if (is_stream_socket(fd) && core_.carry()) return carry(fd);
    } else if (fits && core_.control({message_, size})) {
      if (init_ < 0 && (!core_.stands() || core_.state() == Core::State::Over)) end(0);
      begin_stream();
    } else if (!configured_) {
      give_up(EINVAL, wire::Step::Request);
    }
    if (fd >= 0) close(fd);
  }

  // The stream that was there from the start begins behind the configuration.
  void begin_stream() {
    configured_ = true;
    if (early_ < 0) return;
    const int fd = early_;
    early_ = -1;
    adopt(fd);
  }

  // init has ended: so have we. One that stands may have been saved, and go on elsewhere: then the
  // launcher says Carry next. Whatever else it says is to nobody.
  void init_left() {
    if (!core_.stands()) end(0);
    watch(EPOLL_CTL_DEL, init_, 0, Source::Init);
    close(init_);
    init_ = -1;
  }

  void carry(int fd) {
    if (init_ >= 0) {
      watch(EPOLL_CTL_DEL, init_, 0, Source::Init);
      close(init_);
    }
    init_ = fd;
    init_events_ = EPOLLIN;
    watch(EPOLL_CTL_ADD, init_, EPOLLIN, Source::Init);
  }

  void on_init() {
    if (init_ < 0) return;
    const Piece space = core_.init_space();
    if (space.size == 0) return;
    const ssize_t got = recv(init_, space.data, space.size, MSG_DONTWAIT);
    if (later(got)) return;
    if (got <= 0) return init_left();
    core_.init_gave(static_cast<size_t>(got));
  }

  void on_server(uint32_t events) {
    if (server_ < 0) return;
    const Piece space = core_.server_space();
    if (!core_.wants_server() || space.size == 0) {
      // It waits, or is gone: then what it said last goes with it.
      if ((events & (EPOLLHUP | EPOLLERR)) == 0) return;
      close_server();
      return core_.server_left();
    }
    const ssize_t got = recv(server_, space.data, space.size, MSG_DONTWAIT);
    if (later(got)) return;
    if (got > 0) return core_.server_gave(static_cast<size_t>(got));
    close_server();
    core_.server_left();
  }

  Network network_;
  Core core_;
  uint8_t* message_;
  int epoll_ = -1;
  int init_ = wire::kFdCarried;  // -1: it has ended, and may go on elsewhere
  int server_ = -1;
  int early_ = -1;
  bool configured_ = false;
  uint32_t control_events_ = 0;
  uint32_t init_events_ = 0;
  uint32_t server_events_ = 0;
};

}  // namespace
}  // namespace caisson::carrier

int main() {
  using namespace caisson::carrier;
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  uint8_t* memory = map(Core::kMemoryBytes);
  uint8_t* connections = map(caisson::carried::Streams::kMemoryBytes);
  uint8_t* message = map(caisson::wire::kControlMax);
  uint64_t salt = 0;
  if (memory == nullptr || connections == nullptr || message == nullptr)
    give_up(ENOMEM, caisson::wire::Step::Limit);
  if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt)) give_up(EIO, caisson::wire::Step::Limit);
  static Carrier carrier(memory, connections, message, salt);
  carrier.begin();
  carrier.serve();
}
