#include "engine/microvm/qmp.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <span>

#include "engine/microvm/qmp_json.h"
#include "sys/process.h"
#include "sys/socket.h"

namespace caisson::engine::microvm {
namespace {

constexpr std::size_t kReadBytes = 4096;
constexpr std::size_t kErrorTextMax = 256;
// Memory that lies in a file is not written once more.
constexpr std::string_view kLeaveMemory =
    R"({"capabilities":[{"capability":"x-ignore-shared","state":true}]})";
constexpr auto kSavePause = std::chrono::milliseconds(1);

std::unexpected<Error> nonsense(std::string_view what) {
  return failure(Errc::Protocol, fmt::format("the monitor {}", what));
}

// What a monitor says goes into a message for people: no control characters, and not much of it.
std::string readable(std::string_view text) {
  std::string out(text.substr(0, kErrorTextMax));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return out;
}

}  // namespace

Result<std::string> Qmp::read_line(TimePoint deadline) {
  for (;;) {
    const std::size_t end = pending_.find('\n');
    if (end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    if (pending_.size() > kQmpLineMax) return nonsense("says more than fits a line");
    if (!TRY(sys::wait_ready(socket_.get(), POLLIN, deadline)))
      return failure(Errc::TimedOut, "the monitor does not answer");
    std::array<char, kReadBytes> piece{};
    const ssize_t got = ::recv(socket_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0) return sys_failure("hear the monitor", errno);
    if (got == 0) return failure(Errc::Gone, "the monitor has ended");
    pending_.append(piece.data(), static_cast<std::size_t>(got));
  }
}

Result<void> Qmp::greet(TimePoint deadline) {
  if (greeted_) return {};
  const std::string line = TRY(read_line(deadline));
  if (!is_json(line) || !json_at(line, {"QMP"})) return nonsense("does not greet");
  greeted_ = true;
  TRY(exchange("qmp_capabilities", "", deadline, -1));
  return {};
}

Result<std::string> Qmp::ask(std::string_view command, std::string_view arguments,
                             TimePoint deadline, int descriptor) {
  if (!socket_) return failure(Errc::Gone, "nobody talks with the monitor any more");
  auto greeting = greet(deadline);
  auto answer = greeting ? exchange(command, arguments, deadline, descriptor)
                         : Result<std::string>(std::unexpected(greeting.error()));
  if (!answer && answer.error().code != Errc::Denied) socket_.reset();
  return answer;
}

Result<std::string> Qmp::exchange(std::string_view command, std::string_view arguments,
                                  TimePoint deadline, int descriptor) {
  std::string line = fmt::format(R"({{"execute":"{}")", command);
  if (!arguments.empty()) line += fmt::format(R"(,"arguments":{})", arguments);
  line += "}\n";
  const auto bytes = std::as_bytes(std::span(line.data(), line.size()));
  // A line is far smaller than a socket's buffer, which is empty between two questions.
  const std::array<int, 1> beside{descriptor};
  TRY(sys::send_message(socket_.get(), bytes,
                        descriptor >= 0 ? std::span<const int>(beside) : std::span<const int>()));
  for (std::size_t events = 0; events < kQmpEventsMax; ++events) {
    std::string answer = TRY(read_line(deadline));
    if (!is_json(answer)) return nonsense("says what is no JSON");
    if (json_at(answer, {"return"})) return answer;
    if (json_at(answer, {"error"})) {
      const auto why = json_at(answer, {"error", "desc"});
      return failure(Errc::Denied, fmt::format("the monitor refuses '{}': {}", command,
                                               readable(why.value_or("it does not say why"))));
    }
    if (!json_at(answer, {"event"})) return nonsense("says what is no answer");
  }
  return nonsense("answers with nothing but events");
}

Result<void> Qmp::stop(TimePoint deadline) {
  TRY(ask("stop", "", deadline));
  return {};
}

Result<void> Qmp::go_on(TimePoint deadline) {
  TRY(ask("cont", "", deadline));
  return {};
}

Result<RunState> Qmp::run_state(TimePoint deadline) {
  const std::string answer = TRY(ask("query-status", "", deadline));
  const auto status = json_at(answer, {"return", "status"});
  const auto word = status ? json_string(*status) : std::nullopt;
  if (!word) return nonsense("does not say how its machine is");
  if (*word == "running") return RunState::Running;
  if (*word == "paused" || *word == "postmigrate") return RunState::Stopped;
  if (*word == "inmigrate" || *word == "prelaunch") return RunState::Starting;
  if (*word == "shutdown" || *word == "guest-panicked" || *word == "internal-error")
    return RunState::Ended;
  return RunState::Other;
}

Result<SaveState> Qmp::save_state(TimePoint deadline) {
  const std::string answer = TRY(ask("query-migrate", "", deadline));
  const auto status = json_at(answer, {"return", "status"});
  const auto word = status ? json_string(*status) : std::nullopt;
  if (word == "completed") return SaveState::Completed;
  if (word == "failed" || word == "cancelled" || word == "cancelling") return SaveState::Failed;
  return SaveState::Active;
}

Result<void> Qmp::load(int number, TimePoint deadline) {
  TRY(ask("migrate-set-capabilities", kLeaveMemory, deadline));
  TRY(ask("migrate-incoming", fmt::format(R"({{"uri":"fd:{}"}})", number), deadline));
  while (Clock::now() < deadline) {
    const RunState state = TRY(run_state(deadline));
    if (state == RunState::Stopped) return go_on(deadline);
    if (state != RunState::Starting)
      return failure(Errc::Internal, "the monitor could not take over a machine");
    (void)::poll(nullptr, 0, static_cast<int>(kSavePause.count()));
  }
  return failure(Errc::TimedOut, "the monitor does not finish taking over a machine");
}

Result<void> Qmp::save(int file, TimePoint deadline) {
  TRY(ask("migrate-set-capabilities", kLeaveMemory, deadline));
  TRY(ask("getfd", R"({"fdname":"state"})", deadline, file));
  TRY(ask("migrate", R"({"uri":"fd:state"})", deadline));
  while (Clock::now() < deadline) {
    const SaveState state = TRY(save_state(deadline));
    if (state == SaveState::Completed) return {};
    if (state == SaveState::Failed)
      return failure(Errc::Internal, "the monitor could not save its machine");
    // The monitor says nothing when it is done; a question costs less than this pause.
    (void)::poll(nullptr, 0, static_cast<int>(kSavePause.count()));
  }
  return failure(Errc::TimedOut, "the monitor does not finish saving its machine");
}

}  // namespace caisson::engine::microvm
