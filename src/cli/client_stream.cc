#include "cli/client_stream.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <vector>

#include "cli/cli.h"
#include "cli/client_json.h"
#include "cli/client_session.h"
#include "cli/terminal.h"

namespace caisson::cli {
namespace {

constexpr std::size_t kInputBytes = 32UL * 1024;
constexpr std::size_t kUnsentMax = 128UL * 1024;  // then the caller's input waits
constexpr std::size_t kAtomicWrite = 4096;  // what a pipe that polls as writable takes at once
constexpr int kPatience = 3;                // so many ^C, and we leave by ourselves

constexpr char kToInput = 0;
constexpr char kFromOutput = 1;
constexpr char kFromError = 2;

// One of the caller's outputs and the one message that waits for it.
class Outlet {
 public:
  explicit Outlet(int fd) : fd_(fd) {
    struct stat facts{};
    regular_ = ::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
  }
  [[nodiscard]] int poll_fd() const noexcept { return waiting() ? fd_ : -1; }
  [[nodiscard]] bool waiting() const noexcept { return at_ < bytes_.size() && !closed_; }
  [[nodiscard]] bool closed() const noexcept { return closed_; }
  void give(std::string_view bytes) {
    bytes_.assign(bytes);
    at_ = 0;
  }
  // Once, after poll() said so: the descriptor is shared with the caller's shell, and making it
  // non-blocking would change it for everybody.
  void flush() {
    const std::size_t left = bytes_.size() - at_;
    const ssize_t put =
        ::write(fd_, bytes_.data() + at_, regular_ ? left : std::min(left, kAtomicWrite));
    if (put < 0) {
      closed_ = errno != EINTR && errno != EAGAIN;
    } else {
      at_ += static_cast<std::size_t>(put);
    }
  }

 private:
  int fd_;
  bool regular_ = false;
  bool closed_ = false;
  std::string bytes_;
  std::size_t at_ = 0;
};

const char* signal_name(int number) noexcept {
  switch (number) {
    case SIGINT:
      return "INT";
    case SIGQUIT:
      return "QUIT";
    case SIGHUP:
      return "HUP";
    default:
      return "TERM";
  }
}

class SocketRelay {
 public:
  SocketRelay(RemoteSocket& socket, Framing framing, const StreamDescriptors& descriptors)
      : socket_(socket),
        framing_(framing),
        descriptors_(descriptors),
        out_(descriptors.output),
        err_(descriptors.error) {}

  Result<StreamEnd> run() {
    while (!done_) {
      TRY(read_socket());
      const bool over = ended_ && !out_.waiting() && !err_.waiting();
      if (over || done_) break;
      TRY(turn());
    }
    return std::move(end_);
  }

 private:
  enum Place : std::uint8_t { kSocket, kSignals, kInput, kOutput, kError, kPlaces };

  // Whole messages, as long as the caller takes what is in them.
  Result<void> read_socket() {
    while (!ended_ && !out_.waiting() && !err_.waiting()) {
      const auto message = TRY(socket_.next());
      if (!message) {
        if (socket_.closed()) ended_ = true;
        return {};
      }
      if (message->text) {
        TRY(on_text(message->bytes));
      } else {
        on_bytes(message->bytes);
      }
    }
    return {};
  }

  Result<void> on_text(const std::string& bytes) {
    const auto value = TRY(parse_json(bytes));
    const std::string type = text_at(value, "type");
    if (type == "start") {
      end_.process = count_at(value, "process");
    } else if (type == "exit") {
      end_.how = StreamEnd::How::Exited;
      end_.exit_code = static_cast<int>(count_at(value, "exit_code") & 0xffU);
      end_.timed_out = truth_at(value, "timed_out");
      end_.oom_killed = truth_at(value, "oom_killed");
      ended_ = true;
    } else if (type == "error") {
      const auto& error = field_at(value, "error");
      const std::string code = text_at(error, "code");
      end_.how = StreamEnd::How::Failed;
      end_.error = Error{code == "NotFound" ? Errc::NotFound
                         : code == "Denied" ? Errc::Denied
                                            : Errc::Internal,
                         one_line(text_at(error, "message")), 0};
      ended_ = true;
    }
    return {};
  }

  void on_bytes(std::string_view bytes) {
    if (framing_ == Framing::Terminal) return out_.give(bytes);
    if (bytes.empty()) return;
    const char stream = bytes.front();
    bytes.remove_prefix(1);
    if (stream == kFromOutput) out_.give(bytes);
    if (stream == kFromError) err_.give(bytes);
  }

  Result<void> turn() {
    const bool input = input_open_ && !ended_ && socket_.waiting() < kUnsentMax;
    const bool listen = !ended_ && !out_.waiting() && !err_.waiting();
    const auto wanted = static_cast<short>((listen ? POLLIN : 0) |
                                           (socket_.waiting() > 0 && !ended_ ? POLLOUT : 0));
    std::array<pollfd, kPlaces> places{};
    places[kSocket] = {wanted != 0 ? socket_.fd() : -1, wanted, 0};
    places[kSignals] = {descriptors_.signals, POLLIN, 0};
    places[kInput] = {input ? descriptors_.input : -1, POLLIN, 0};
    places[kOutput] = {out_.poll_fd(), POLLOUT, 0};
    places[kError] = {err_.poll_fd(), POLLOUT, 0};
    if (::poll(places.data(), places.size(), -1) < 0 && errno != EINTR)
      return sys_failure("poll", errno);
    if ((places[kSignals].revents & POLLIN) != 0) TRY(on_signal());
    if (places[kInput].revents != 0) TRY(on_input());
    if (places[kOutput].revents != 0) out_.flush();
    if (places[kError].revents != 0) err_.flush();
    if (out_.closed() || err_.closed()) leave(StreamEnd::How::OutputClosed);
    if ((places[kSocket].revents & POLLOUT) != 0) TRY(socket_.flush());
    return {};
  }

  void leave(StreamEnd::How how) {
    if (!ended_) end_.how = how;
    done_ = true;
  }

  Result<void> on_input() {
    std::array<char, kInputBytes + 1> bytes;
    bytes[0] = kToInput;
    const ssize_t got = ::read(descriptors_.input, bytes.data() + 1, kInputBytes);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return {};
    if (got <= 0) {
      input_open_ = false;
      if (framing_ == Framing::Exec) return socket_.send(R"({"type":"close_stdin"})", true);
      return {};
    }
    const std::string_view taken(bytes.data(), static_cast<std::size_t>(got) + 1);
    return socket_.send(framing_ == Framing::Exec ? taken : taken.substr(1), false);
  }

  Result<void> on_signal() {
    signalfd_siginfo info{};
    if (::read(descriptors_.signals, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info)))
      return {};
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGWINCH) {
      if (framing_ != Framing::Terminal) return {};
      const WindowSize size = window_size(descriptors_.input);
      return socket_.send(
          fmt::format(R"({{"type":"resize","rows":{},"cols":{}}})", size.rows, size.columns), true);
    }
    // In a terminal the keys travel as bytes: a signal of our own is meant for us.
    if (framing_ == Framing::Terminal || ++asked_ >= kPatience) {
      leave(StreamEnd::How::Left);
      return {};
    }
    return socket_.send(fmt::format(R"({{"type":"signal","signal":"{}"}})", signal_name(number)),
                        true);
  }

  RemoteSocket& socket_;
  Framing framing_;
  StreamDescriptors descriptors_;
  Outlet out_;
  Outlet err_;
  bool input_open_ = true;
  bool ended_ = false;  // nothing more comes from the server
  bool done_ = false;
  int asked_ = 0;
  StreamEnd end_;
};

}  // namespace

Result<StreamEnd> relay_socket(RemoteSocket& socket, Framing framing,
                               const StreamDescriptors& descriptors) {
  return SocketRelay(socket, framing, descriptors).run();
}

int exit_status_of(const StreamEnd& end) noexcept {
  switch (end.how) {
    case StreamEnd::How::Exited:
      return end.timed_out ? kExitTimedOut : end.exit_code;
    case StreamEnd::How::OutputClosed:
      return 128 + SIGPIPE;
    case StreamEnd::How::Left:
      return 128 + SIGINT;
    case StreamEnd::How::Failed:
      if (end.error && end.error->code == Errc::NotFound) return kExitNotFound;
      if (end.error && end.error->code == Errc::Denied) return kExitNotExecutable;
      return kExitFailed;
    case StreamEnd::How::Lost:
      return kExitFailed;
  }
  return kExitFailed;
}

}  // namespace caisson::cli
