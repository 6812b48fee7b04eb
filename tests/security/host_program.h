// Runs the caisson command as a person or a careless program would: with whatever is open, with or
// without standard descriptors, and never longer than a minute.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "tests/support/box.h"

namespace caisson::test {

inline constexpr std::chrono::seconds kHostRunTimeMax{60};
inline constexpr std::size_t kHostRunBytesMax = 1 << 20;

enum class Standard { Piped, Closed };

struct HostRun {
  int status = -1;  // the exit status, -1 when a signal ended it or time ran out
  std::string out;
  std::string err;
};

struct HostPipe {
  UniqueFd ours;
  UniqueFd theirs;
  HostPipe() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    ours = UniqueFd(ends[0]);
    theirs = UniqueFd(ends[1]);
  }
};

// Reads both pipes to their ends; false when time ran out first.
inline bool drain_both(HostPipe& out, HostPipe& err, HostRun& run) {
  const auto deadline = std::chrono::steady_clock::now() + kHostRunTimeMax;
  pollfd waits[2] = {{out.ours.get(), POLLIN, 0}, {err.ours.get(), POLLIN, 0}};
  std::string* const texts[2] = {&run.out, &run.err};
  while (waits[0].fd >= 0 || waits[1].fd >= 0) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 || ::poll(waits, 2, static_cast<int>(left.count())) <= 0) return false;
    for (int i = 0; i < 2; ++i) {
      if (waits[i].fd < 0 || waits[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t got = ::read(waits[i].fd, buffer, sizeof(buffer));
      if (got <= 0)
        waits[i].fd = -1;
      else if (texts[i]->size() < kHostRunBytesMax)
        texts[i]->append(buffer, static_cast<std::size_t>(got));
    }
  }
  return true;
}

// The state directory is the test program's own.
inline HostRun run_caisson(std::vector<std::string> arguments,
                           Standard standard = Standard::Piped) {
  arguments.insert(arguments.begin(), caisson_program());
  arguments.insert(arguments.begin() + 2, {"--state-dir", state_dir()});
  std::vector<char*> words;
  for (std::string& word : arguments) words.push_back(word.data());
  words.push_back(nullptr);
  HostPipe out;
  HostPipe err;
  HostRun run;
  const pid_t child = ::fork();
  if (child == 0) {
    if (standard == Standard::Closed) {
      for (int fd = 0; fd < 3; ++fd) ::close(fd);
    } else {
      const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      ::dup2(null, 0);
      ::dup2(out.theirs.get(), 1);
      ::dup2(err.theirs.get(), 2);
    }
    ::execv(words[0], words.data());
    ::_exit(99);
  }
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  out.theirs.reset();
  err.theirs.reset();
  pollfd end{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  const int wait_ms = static_cast<int>(std::chrono::milliseconds(kHostRunTimeMax).count());
  const bool ended = drain_both(out, err, run) && ::poll(&end, 1, wait_ms) == 1;
  if (!ended) (void)::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (ended && WIFEXITED(status)) run.status = WEXITSTATUS(status);
  return run;
}

}  // namespace caisson::test
