#include "cli/relay.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "cli/terminal.h"
#include "engine/launcher/core.h"
#include "sys/process.h"

namespace caisson::cli {
namespace {

constexpr seconds kLastWords{5};
constexpr std::size_t kInputBytes = 32UL * 1024;
constexpr std::size_t kAtomicWrite =
    4096;  // what a pipe that polls as writable takes without blocking

// One of the caller's two outputs and what waits for it.
class Outlet {
 public:
  Outlet(int fd, const char* name) : fd_(fd), name_(name) {
    struct stat facts{};
    if (::fstat(fd, &facts) == 0) regular_ = S_ISREG(facts.st_mode);
  }

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] const char* name() const noexcept { return name_; }
  [[nodiscard]] bool waiting() const noexcept { return begin_ < bytes_.size(); }
  [[nodiscard]] bool closed() const noexcept { return closed_; }

  void add(std::span<const std::byte> bytes) {
    if (!closed_) bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  // Writes what can be written without waiting; how many bytes left us.
  std::size_t flush() {
    std::size_t done = 0;
    while (waiting() && !closed_) {
      const ssize_t put = write_some();
      if (put < 0 && errno == EINTR) continue;
      if (put < 0 && errno == EAGAIN) break;
      if (put < 0) {
        closed_ = true;  // EPIPE, a full disk, a terminal that hung up: nobody reads any more
        break;
      }
      begin_ += static_cast<std::size_t>(put);
      done += static_cast<std::size_t>(put);
      if (!regular_ && !no_wait_) break;  // only as much as poll() promised
    }
    if (!waiting() || closed_) {
      done += closed_ ? bytes_.size() - begin_ : 0;
      bytes_.clear();
      begin_ = 0;
    }
    return done;
  }

 private:
  // The descriptor is shared with the caller's shell: making it non-blocking would change it for
  // everybody.
  ssize_t write_some() {
    const std::size_t size = bytes_.size() - begin_;
    iovec part{bytes_.data() + begin_, size};
    if (regular_) return ::write(fd_, part.iov_base, size);
    if (no_wait_) {
      const ssize_t put = ::pwritev2(fd_, &part, 1, -1, RWF_NOWAIT);
      if (put >= 0 || errno != EOPNOTSUPP) return put;
      no_wait_ = false;
    }
    return ::write(fd_, part.iov_base, std::min(size, kAtomicWrite));
  }

  int fd_;
  const char* name_;
  bool regular_ = false;
  bool no_wait_ = true;
  bool closed_ = false;
  std::vector<std::byte> bytes_;
  std::size_t begin_ = 0;
};

class Relay {
 public:
  Relay(engine::LauncherCore& core, const std::string& id, engine::GuestLink& link,
        const RelayRequest& request, int signals)
      : core_(core), id_(id), link_(link), request_(request), signals_(signals) {}

  Result<RelayOutcome> run() {
    while (!finished()) {
      TRY(turn());
      if (gone_) break;
    }
    finish(out_);
    finish(err_);
    return std::move(outcome_);
  }

 private:
  enum Place : std::uint8_t { kLink, kSignals, kInput, kOutput, kError, kPlaces };

  [[nodiscard]] bool finished() const {
    if (outcome_.not_started || !outcome_.closed_output.empty()) return true;
    if (!outcome_.exited) return false;
    if (out_.waiting() || err_.waiting()) return false;
    return received_[0] >= outcome_.exited->end_offset[0] &&
           received_[1] >= outcome_.exited->end_offset[1];
  }

  // The sandbox is gone, and the caller may still be reading what it said last. He gets a moment
  // for it.
  static void finish(Outlet& outlet) {
    const TimePoint deadline = Clock::now() + kLastWords;
    while (outlet.waiting()) {
      const auto ready = sys::wait_ready(outlet.fd(), POLLOUT, deadline);
      if (!ready || !*ready) return;
      (void)outlet.flush();
    }
  }

  [[nodiscard]] int timeout() const {
    std::optional<TimePoint> next = core_.next_check();
    if (request_.give_up) next = next ? std::min(*next, *request_.give_up) : *request_.give_up;
    if (!next) return -1;
    const auto left = std::chrono::ceil<milliseconds>(*next - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
  }

  Result<void> turn() {
    const bool input = input_open_ && link_.greeted() && link_.input_window(kRelayed) > 0;
    std::array<pollfd, kPlaces> places{};
    places[kLink] = {link_.fd(), static_cast<short>(POLLIN | (link_.wants_write() ? POLLOUT : 0)),
                     0};
    places[kSignals] = {signals_, POLLIN, 0};
    places[kInput] = {input ? STDIN_FILENO : -1, POLLIN, 0};
    places[kOutput] = {out_.waiting() ? out_.fd() : -1, POLLOUT, 0};
    places[kError] = {err_.waiting() ? err_.fd() : -1, POLLOUT, 0};
    if (::poll(places.data(), places.size(), timeout()) < 0 && errno != EINTR)
      return sys_failure("poll", errno);
    core_.tick();
    if (request_.give_up && Clock::now() >= *request_.give_up)
      TRY(core_.kill(id_, engine::EndReason::Life));
    if ((places[kSignals].revents & POLLIN) != 0) on_signal();
    if (places[kInput].revents != 0) TRY(on_input());
    if (places[kOutput].revents != 0) TRY(drain(out_, wire::Stream::Output));
    if (places[kError].revents != 0) TRY(drain(err_, wire::Stream::Error));
    if (places[kLink].revents != 0) on_link(places[kLink].revents);
    return {};
  }

  void on_link(short events) {
    if ((events & POLLOUT) != 0) (void)link_.on_writable();
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) (void)link_.on_readable();
    for (;;) {
      const auto frame = link_.next();
      if (!frame || !*frame) break;
      on_frame(**frame);
    }
    if (link_.death()) gone_ = true;
    if (link_.wants_write()) (void)link_.on_writable();
  }

  void on_frame(const engine::Frame& frame) {
    if (frame.id != kRelayed) return;
    if (frame.kind == wire::Kind::Data) return on_data(frame);
    if (frame.kind == wire::Kind::Exited) {
      wire::ExitedBody body{};
      std::memcpy(&body, frame.payload.data(), std::min(sizeof(body), frame.payload.size()));
      outcome_.exited = body;
    } else if (frame.kind == wire::Kind::Failed && !outcome_.exited && !started_) {
      wire::FailedView failed{};
      if (wire::parse_failed(frame.bytes(), failed)) {
        outcome_.not_started = engine::error_of(failed);
        outcome_.not_started_at = static_cast<wire::Step>(failed.body.step);
      }
    } else if (frame.kind == wire::Kind::Started) {
      started_ = true;
    }
  }

  void on_data(const engine::Frame& frame) {
    if (frame.payload.size() < sizeof(wire::DataHeader)) return;
    wire::DataHeader header{};
    std::memcpy(&header, frame.payload.data(), sizeof(header));
    const auto bytes = frame.payload.subspan(sizeof(header));
    const bool error = frame.stream == static_cast<std::uint16_t>(wire::Stream::Error);
    received_[error ? 1 : 0] = header.offset + bytes.size();
    Outlet& outlet = error ? err_ : out_;
    outlet.add(bytes);
    (void)drain(outlet, error ? wire::Stream::Error : wire::Stream::Output);
  }

  // What left us may be sent again.
  Result<void> drain(Outlet& outlet, wire::Stream stream) {
    const std::size_t done = outlet.flush();
    if (outlet.closed() && outcome_.closed_output.empty()) outcome_.closed_output = outlet.name();
    if (done > 0) (void)link_.credit(kRelayed, stream, static_cast<std::uint32_t>(done));
    return {};
  }

  Result<void> on_input() {
    std::array<std::byte, kInputBytes> bytes;
    const std::size_t room = std::min(bytes.size(), link_.input_window(kRelayed));
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), room);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return {};
    if (got <= 0) {
      input_open_ = false;
      if (!request_.terminal) (void)link_.close_input(kRelayed);
      return {};
    }
    const auto taken =
        link_.input(kRelayed, std::span(bytes.data(), static_cast<std::size_t>(got)));
    if (taken) CAISSON_ASSERT(*taken == static_cast<std::size_t>(got));
    return {};
  }

  void on_signal() {
    signalfd_siginfo info{};
    if (::read(signals_, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return;
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGWINCH) {
      if (!request_.terminal) return;
      const WindowSize size = window_size(STDIN_FILENO);
      (void)link_.resize(kRelayed, size.rows, size.columns);
      return;
    }
    (void)link_.signal(kRelayed, number, wire::SignalTarget::Foreground);
  }

  engine::LauncherCore& core_;
  const std::string& id_;
  engine::GuestLink& link_;
  const RelayRequest& request_;
  int signals_;
  Outlet out_{STDOUT_FILENO, "standard output"};
  Outlet err_{STDERR_FILENO, "standard error"};
  std::array<std::uint64_t, 2> received_{};
  bool input_open_ = true;
  bool started_ = false;
  bool gone_ = false;
  RelayOutcome outcome_;
};

}  // namespace

Result<UniqueFd> watch_signals() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH})
    ::sigaddset(&wanted, number);
  if (::sigprocmask(SIG_BLOCK, &wanted, nullptr) != 0) return sys_failure("block signals", errno);
  ::signal(SIGPIPE, SIG_IGN);
  UniqueFd fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return sys_failure("signalfd", errno);
  return fd;
}

Result<RelayOutcome> relay(engine::LauncherCore& core, const std::string& id,
                           engine::GuestLink& link, const RelayRequest& request, int signals) {
  return Relay(core, id, link, request, signals).run();
}

}  // namespace caisson::cli
