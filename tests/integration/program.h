// The real command, started as a shell would start it: arguments, environment, folder and
// descriptors are the test's, and what it says comes back as bytes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "tests/support/box.h"

namespace caisson::test {

// A folder of the host that a sandbox may be shown: not below /var or another refused place.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/caisson-folder-XXXXXX";
    if (::mkdtemp(name) == nullptr) throw std::runtime_error("no folder");
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  std::string write(const std::string& name, const std::string& content, mode_t mode = 0644) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    (void)::chmod(path.c_str(), mode);
    return path;
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(path_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] bool has(const std::string& name) const {
    return std::filesystem::exists(path_ + "/" + name);
  }

 private:
  std::string path_;
};

enum class Stdio : std::uint8_t { Pipe, Null, Closed };

struct ProgramOptions {
  std::string folder;  // empty: the one of the test program
  std::vector<std::string> env;
  std::string input;
  Stdio standard_input = Stdio::Pipe;
  Stdio standard_output = Stdio::Pipe;
  bool close_output_at_once = false;  // its reader leaves before a byte is there
};

struct Finished {
  int status = -1;  // exit status; 128 + N when a signal ended it
  std::string out;
  std::string err;
  // The line of the program's own that begins so, without its end.
  [[nodiscard]] std::string line(const std::string& begin) const {
    const std::size_t at = err.starts_with(begin) ? 0 : err.find("\n" + begin);
    if (at == std::string::npos) return "";
    const std::size_t from = at == 0 ? 0 : at + 1;
    return err.substr(from, err.find('\n', from) - from);
  }
};

class Program {
 public:
  explicit Program(const std::vector<std::string>& arguments, ProgramOptions options = {})
      : options_(std::move(options)) {
    std::array<UniqueFd, 3> theirs;
    if (options_.standard_input == Stdio::Pipe) make_pipe(theirs[0], input_);
    if (options_.standard_output == Stdio::Pipe) make_pipe(output_, theirs[1]);
    make_pipe(error_, theirs[2]);
    if (options_.close_output_at_once) output_ = UniqueFd();
    spawn(arguments, theirs);
    if (input_) ::fcntl(input_.get(), F_SETFL, O_NONBLOCK);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  void kill() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  // Reads until `text` stands in the output.
  bool wait_for_output(const std::string& text, seconds within = seconds(30)) {
    const TimePoint deadline = Clock::now() + within;
    while (finished_.out.find(text) == std::string::npos) {
      if (Clock::now() >= deadline || !output_ || !turn()) return false;
    }
    return true;
  }

  // Feeds the input, takes both outputs to their ends and reaps.
  Finished finish(seconds within = seconds(60)) {
    const TimePoint deadline = Clock::now() + within;
    while (output_ || error_) {
      if (Clock::now() < deadline && turn()) continue;
      ADD_FAILURE() << "the program does not end; it said: " << finished_.err;
      ::kill(pid_, SIGKILL);
      break;
    }
    reap(deadline);
    return finished_;
  }

 private:
  static void make_pipe(UniqueFd& reader, UniqueFd& writer) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    reader = UniqueFd(ends[0]);
    writer = UniqueFd(ends[1]);
  }

  void spawn(const std::vector<std::string>& arguments, const std::array<UniqueFd, 3>& theirs) {
    std::vector<std::string> words{caisson_program()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<std::string> environment = options_.env;  // first: of two, the first is seen
    for (const std::string& one : {std::string("PATH=/usr/local/bin:/usr/bin:/bin"),
                                   std::string("HOME=/root"), "CAISSON_STATE_DIR=" + state_dir()})
      environment.push_back(one);
    std::vector<char*> argv;
    std::vector<char*> envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& one : environment) envp.push_back(one.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    const Stdio kinds[] = {options_.standard_input, options_.standard_output, Stdio::Pipe};
    for (int fd = 0; fd < 3; ++fd) {
      if (kinds[fd] == Stdio::Pipe) {
        ::posix_spawn_file_actions_adddup2(&actions, theirs[static_cast<std::size_t>(fd)].get(),
                                           fd);
      } else if (kinds[fd] == Stdio::Closed) {
        ::posix_spawn_file_actions_addclose(&actions, fd);
      } else {
        ::posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
      }
    }
    if (!options_.folder.empty())
      ::posix_spawn_file_actions_addchdir_np(&actions, options_.folder.c_str());
    const int failed = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data());
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) throw std::runtime_error("cannot start " + words[0]);
  }

  // One look at the three pipes; false when nothing came in a long time.
  bool turn() {
    pollfd places[] = {{input_ ? input_.get() : -1, POLLOUT, 0},
                       {output_ ? output_.get() : -1, POLLIN, 0},
                       {error_ ? error_.get() : -1, POLLIN, 0}};
    if (::poll(places, 3, 30'000) <= 0) return false;
    if (places[0].revents != 0) feed();
    if (places[1].revents != 0) take(output_, finished_.out);
    if (places[2].revents != 0) take(error_, finished_.err);
    return true;
  }
  void feed() {
    const std::size_t left = options_.input.size() - fed_;
    const ssize_t put = left == 0 ? 0 : ::write(input_.get(), options_.input.data() + fed_, left);
    if (put < 0 && errno == EAGAIN) return;
    if (put > 0) fed_ += static_cast<std::size_t>(put);
    if (put < 0 || fed_ == options_.input.size()) input_ = UniqueFd();
  }
  static void take(UniqueFd& from, std::string& to) {
    std::array<char, 65536> bytes;
    const ssize_t got = ::read(from.get(), bytes.data(), bytes.size());
    if (got > 0) {
      to.append(bytes.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      from = UniqueFd();
    }
  }
  void reap(TimePoint deadline) {
    const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    pollfd place{handle.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
    if (::poll(&place, 1, static_cast<int>(std::max<std::int64_t>(left, 1000))) <= 0)
      ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    finished_.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  ProgramOptions options_;
  UniqueFd input_;
  UniqueFd output_;
  UniqueFd error_;
  pid_t pid_ = -1;
  std::size_t fed_ = 0;
  Finished finished_;
};

inline Finished caisson(const std::vector<std::string>& arguments, ProgramOptions options = {}) {
  ::signal(SIGPIPE, SIG_IGN);  // a program that does not read its input is not our end
  return Program(arguments, std::move(options)).finish();
}

// `caisson run ARGUMENTS… -- /bin/sh -c SCRIPT`
inline Finished run_sh(std::vector<std::string> arguments, const std::string& script,
                       ProgramOptions options = {}) {
  arguments.insert(arguments.begin(), "run");
  for (const char* word : {"--", "/bin/sh", "-c"}) arguments.emplace_back(word);
  arguments.push_back(script);
  return caisson(arguments, std::move(options));
}

// No sandbox of this test program's state directory is on record any more. The guardian of a run
// clears the record a moment after the run has ended.
inline bool nothing_on_record() {
  const TimePoint deadline = Clock::now() + seconds(20);
  for (;;) {
    std::ifstream slots(state_dir() + "/launcher/slots", std::ios::binary);
    bool empty = true;
    for (char byte = 0; empty && slots.get(byte);) empty = byte == '\0';
    if (empty) return true;
    if (Clock::now() >= deadline) return false;
    (void)::poll(nullptr, 0, 2);
  }
}

}  // namespace caisson::test
