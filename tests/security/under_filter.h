// Runs a piece of code, or a program, as a tenant sees the kernel: under the compiled filter and
// nothing else. The other walls are left out on purpose, so that only the filter can have said no.
#pragma once

#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "engine/seccomp/filter.h"

namespace caisson::security {

inline constexpr int kSetupFailed = 250;
inline constexpr std::size_t kOutputMax = 1 << 20;
inline constexpr std::chrono::seconds kProgramTimeMax{60};

struct Ended {
  int status = -1;  // the exit status, -1 when a signal ended it
  int signal = 0;

  friend bool operator==(const Ended&, const Ended&) = default;
};

inline bool install(const engine::seccomp::Filter& filter) {
  sock_fprog program{};
  program.len = static_cast<unsigned short>(filter.size());
  program.filter = const_cast<sock_filter*>(filter.data());  // the kernel only reads it
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

inline Ended wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return {.status = -1, .signal = WTERMSIG(status)};
  return {.status = WEXITSTATUS(status), .signal = 0};
}

// `body` returns an exit status of 0 to 249, for example an errno.
template <class Body>
Ended under_filter(engine::seccomp::Profile profile, Body body) {
  const engine::seccomp::Filter filter = engine::seccomp::compile(profile);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    if (!install(filter)) ::_exit(kSetupFailed);
    ::_exit(body());
  }
  return wait_for(child);
}

// 0, or the errno of a raw call. Arguments are taken as 64 bits, whatever the call makes of them.
inline int errno_of(long number, unsigned long a = 0, unsigned long b = 0, unsigned long c = 0,
                    unsigned long d = 0, unsigned long e = 0, unsigned long f = 0) {
  return ::syscall(number, a, b, c, d, e, f) == -1 ? errno : 0;
}

struct ProgramResult {
  Ended ended;
  std::string output;  // stdout and stderr together
};

inline std::string drain(int fd, pid_t child) {
  const auto deadline = std::chrono::steady_clock::now() + kProgramTimeMax;
  std::string output;
  while (output.size() < kOutputMax) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) == 0) {
      ::kill(-child, SIGKILL);  // its own process group, which it leads
      return output + "\n[no end within the time allowed]";
    }
    char buffer[4096];
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got <= 0) break;
    output.append(buffer, static_cast<std::size_t>(got));
  }
  return output;
}

// Runs a program under the filter with an empty working folder of its own and a short environment.
inline ProgramResult run_under_filter(engine::seccomp::Profile profile,
                                      std::vector<std::string> argv,
                                      const std::string& folder = "/") {
  const engine::seccomp::Filter filter = engine::seccomp::compile(profile);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  std::vector<char*> words;
  for (std::string& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  std::string path = "PATH=/usr/local/bin:/usr/bin:/bin";
  std::string home = "HOME=" + folder;
  char* environment[] = {path.data(), home.data(), nullptr};
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    const bool ready = ::chdir(folder.c_str()) == 0 && ::dup2(write_end.get(), 1) == 1 &&
                       ::dup2(write_end.get(), 2) == 2 && install(filter);
    if (ready) ::execve(words[0], words.data(), environment);
    ::_exit(kSetupFailed);
  }
  write_end.reset();
  std::string output = drain(read_end.get(), child);
  return {.ended = wait_for(child), .output = std::move(output)};
}

}  // namespace caisson::security
