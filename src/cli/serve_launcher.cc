#include "cli/serve_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/clock.h"
#include "engine/launcher/client.h"
#include "engine/launcher/rendezvous.h"
#include "sys/file.h"
#include "sys/process.h"
#include "sys/raw.h"

namespace caisson::cli {
namespace {

constexpr seconds kStartMax{30};
constexpr seconds kAnswerMax{30};
constexpr seconds kEndMax{15};  // longer than a keeper waits for what its worker had started
constexpr int kEndLookMs = 20;
constexpr std::size_t kLineMax = 4096;
constexpr int kTellFd = 3;

// Between fork and exec: only numbers and pointers that were ready before.
[[noreturn]] void become_launcher(int null, int log, int tell, char* const* argv,
                                  char* const* envp) {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const bool ready = ::setsid() >= 0 && ::chdir("/") == 0 && ::dup2(null, 0) == 0 &&
                     ::dup2(null, 1) == 1 && ::dup2(log, 2) == 2 &&
                     ::dup2(tell, kTellFd) == kTellFd;
  if (!ready) ::_exit(1);
  (void)sys::raw::close_range(kTellFd + 1, ~0U, 0);
  // The server will run under our pid, and reaps nobody: the launcher must not be its child.
  const pid_t pid = ::fork();
  if (pid != 0) ::_exit(pid < 0 ? 1 : 0);
  ::execve("/proc/self/exe", argv, envp);
  ::_exit(1);
}

// The one line that the launcher says, or what came until it was gone.
Result<std::string> read_line(int fd, TimePoint deadline) {
  std::string line;
  while (line.size() < kLineMax) {
    if (!TRY(sys::wait_ready(fd, POLLIN, deadline)))
      return failure(Errc::TimedOut, "the launcher does not start");
    char byte = 0;
    const ssize_t got = ::read(fd, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || byte == '\n') break;
    line.push_back(byte);
  }
  return line;
}

Result<void> start_launcher(const std::string& state_dir, const ServerIdentity& server,
                            const LauncherWishes& wishes) {
  std::vector<std::string> words{"caisson",        "launcher",
                                 "--service",      "--tell-ready",
                                 "--state-dir",    state_dir,
                                 "--server-uid",   std::to_string(server.uid),
                                 "--orphan-grace", std::to_string(wishes.orphan_grace_seconds),
                                 "--store-bytes",  std::to_string(wishes.store_bytes)};
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::string path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  char* envp[] = {path.data(), nullptr};
  sys::Pipe tell = TRY(sys::make_pipe());
  // Above the numbers they will be given: a dup2 onto itself would leave close-on-exec set.
  UniqueFd tell_high = TRY(sys::duplicate(tell.write.get(), kTellFd + 1));
  const UniqueFd null = TRY(sys::open_at(AT_FDCWD, "/dev/null", O_RDWR));
  const UniqueFd log =
      TRY(sys::open_at(AT_FDCWD, state_dir + "/launcher/log",
                       O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW, 0600));
  const pid_t pid = ::fork();
  if (pid < 0) return sys_failure("start the launcher", errno);
  if (pid == 0) become_launcher(null.get(), log.get(), tell_high.get(), argv.data(), envp);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return failure(Errc::Internal, "the launcher cannot be started");
  tell.write.reset();
  tell_high.reset();
  const std::string line = TRY(read_line(tell.read.get(), Clock::now() + kStartMax));
  if (line == "ready") return {};
  if (line.starts_with(kPlaceTaken)) return failure(Errc::Busy, line.substr(kPlaceTaken.size()));
  return failure(Errc::Internal, "the launcher does not start: " +
                                     (line.empty() ? "see " + state_dir + "/launcher/log" : line));
}

// What is there, or a new one; and a word from it.
Result<void> find_or_start(const std::string& state_dir, const ServerIdentity& server,
                           const LauncherWishes& wishes) {
  const std::string socket = engine::launcher_socket(state_dir);
  const auto found = engine::connect_launcher(socket);
  if (!found && found.error().code != Errc::LauncherGone) return std::unexpected(found.error());
  if (!found) TRY(start_launcher(state_dir, server, wishes));
  TRY(engine::LauncherClient::attach(socket, Clock::now() + kAnswerMax));
  return {};
}

}  // namespace

// A server that was told to end is gone a moment before its launcher. Whoever comes in between
// finds one that hangs up, or nobody in a place that is taken for a moment more.
Result<void> ensure_launcher(const std::string& state_dir, const ServerIdentity& server,
                             const LauncherWishes& wishes) {
  const TimePoint patience = Clock::now() + kEndMax;
  bool ending = false;
  for (;;) {
    auto ready = find_or_start(state_dir, server, wishes);
    if (ready) return ready;
    const Errc code = ready.error().code;
    ending = ending || code == Errc::LauncherGone || code == Errc::Gone || code == Errc::Busy;
    if (!ending || Clock::now() >= patience) return ready;
    (void)::poll(nullptr, 0, kEndLookMs);
  }
}

}  // namespace caisson::cli
