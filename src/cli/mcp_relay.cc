#include "cli/mcp_relay.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>

namespace caisson::cli {
namespace {

constexpr std::size_t kInputBytes = 64UL * 1024;
constexpr std::size_t kUnsentMax = 1024UL * 1024;  // then the client's input waits
constexpr std::size_t kAtomicWrite = 4096;  // what a pipe that polls as writable takes at once
constexpr std::string_view kEnd = "end";    // to the server: no more will come

class McpRelay {
 public:
  McpRelay(RemoteSocket& socket, const McpPipes& pipes) : socket_(socket), pipes_(pipes) {}

  Result<void> run() {
    while (!done_) {
      TRY(read_socket());
      if (ended_ && rest().empty()) break;
      TRY(turn());
    }
    if (ended_ && input_open_) return failure(Errc::Gone, "the server has ended the connection");
    return {};
  }

 private:
  enum Place : std::uint8_t { kSocket, kSignals, kInput, kOutput, kPlaces };

  [[nodiscard]] std::string_view rest() const noexcept {
    return std::string_view(out_).substr(at_);
  }

  // One message at a time, when the one before was taken.
  Result<void> read_socket() {
    while (!ended_ && rest().empty()) {
      auto message = TRY(socket_.next());
      if (!message) {
        ended_ = socket_.closed();
        return {};
      }
      if (message->text) continue;
      out_ = std::move(message->bytes);
      at_ = 0;
    }
    return {};
  }

  Result<void> turn() {
    const bool input = input_open_ && !ended_ && socket_.waiting() < kUnsentMax;
    const bool waiting = !rest().empty();
    const auto wanted = static_cast<short>((!ended_ && !waiting ? POLLIN : 0) |
                                           (socket_.waiting() > 0 && !ended_ ? POLLOUT : 0));
    std::array<pollfd, kPlaces> places{};
    places[kSocket] = {wanted != 0 ? socket_.fd() : -1, wanted, 0};
    places[kSignals] = {pipes_.signals, POLLIN, 0};
    places[kInput] = {input ? pipes_.input : -1, POLLIN, 0};
    // Asked for nothing it still says when the client has closed its end.
    places[kOutput] = {pipes_.output, static_cast<short>(waiting ? POLLOUT : 0), 0};
    if (::poll(places.data(), places.size(), -1) < 0) {
      if (errno == EINTR) return {};
      return sys_failure("poll", errno);
    }
    if (places[kSignals].revents != 0) done_ = true;
    if (places[kInput].revents != 0) TRY(on_input());
    if ((places[kOutput].revents & (POLLERR | POLLNVAL)) != 0) done_ = true;
    if ((places[kOutput].revents & POLLOUT) != 0) on_output();
    if ((places[kSocket].revents & POLLOUT) != 0) TRY(socket_.flush());
    return {};
  }

  Result<void> on_input() {
    std::array<char, kInputBytes> bytes;
    const ssize_t got = ::read(pipes_.input, bytes.data(), bytes.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return {};
    if (got > 0)
      return socket_.send(std::string_view(bytes.data(), static_cast<std::size_t>(got)), false);
    input_open_ = false;
    return socket_.send(kEnd, true);
  }

  // Once, after poll() said so: the descriptor is the client's, and stays as it is.
  void on_output() {
    const std::string_view left = rest();
    const ssize_t put = ::write(pipes_.output, left.data(), std::min(left.size(), kAtomicWrite));
    if (put >= 0) at_ += static_cast<std::size_t>(put);
    if (put < 0 && errno != EINTR && errno != EAGAIN) done_ = true;
  }

  RemoteSocket& socket_;
  McpPipes pipes_;
  std::string out_;
  std::size_t at_ = 0;
  bool input_open_ = true;
  bool ended_ = false;  // the server says nothing more
  bool done_ = false;
};

}  // namespace

Result<void> relay_mcp(RemoteSocket& socket, const McpPipes& pipes) {
  return McpRelay(socket, pipes).run();
}

}  // namespace caisson::cli
