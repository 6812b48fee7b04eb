// The real command, started by an ordinary user of this host: one without sub-ids, one with, one in
// a control group that was handed to him. What a test needs of the host (names in /etc, a copy of
// the program that he can reach, a group) is made for it alone and taken away.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "base/unique_fd.h"
#include "tests/integration/program.h"

namespace caisson::test {

inline constexpr seconds kUserRunTimeMax{90};

struct Person {
  uid_t uid = 65534;
  std::string etc;    // files of his own over /etc/passwd, subuid and subgid; empty: the host's
  std::string group;  // a control group to start in; empty: ours
};

// Between fork and exec, still as root: only what cannot be done before.
inline bool become(const Person& person) {
  if (!person.group.empty()) {
    const int procs = ::open((person.group + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
    if (procs < 0 || ::write(procs, "0", 1) != 1) return false;
  }
  if (!person.etc.empty()) {
    // In a mount namespace of its own: the host's files never change, whatever becomes of us.
    if (::unshare(CLONE_NEWNS) != 0) return false;
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    for (const char* name : {"passwd", "group", "subuid", "subgid"}) {
      const std::string from = person.etc + "/" + name;
      const std::string to = std::string("/etc/") + name;
      if (::mount(from.c_str(), to.c_str(), nullptr, MS_BIND, nullptr) != 0) return false;
    }
  }
  return ::setgroups(0, nullptr) == 0 && ::setresgid(person.uid, person.uid, person.uid) == 0 &&
         ::setresuid(person.uid, person.uid, person.uid) == 0;
}

class UserProgram {
 public:
  UserProgram(const Person& person, std::vector<std::string> words, const std::string& folder,
              std::vector<std::string> env) {
    int out[2];
    int err[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0)
      throw std::runtime_error("no pipe");
    output_ = UniqueFd(out[0]);
    error_ = UniqueFd(err[0]);
    const UniqueFd their_output(out[1]);
    const UniqueFd their_error(err[1]);
    std::vector<char*> argv;
    std::vector<char*> envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& one : env) envp.push_back(one.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("no process");
    if (pid_ == 0) {
      ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
      ::dup2(their_output.get(), 1);
      ::dup2(their_error.get(), 2);
      if (become(person) && ::chdir(folder.c_str()) == 0)
        ::execve(argv[0], argv.data(), envp.data());
      ::_exit(99);
    }
    pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  }
  UserProgram(const UserProgram&) = delete;
  UserProgram& operator=(const UserProgram&) = delete;
  ~UserProgram() {
    if (pid_ > 0) {
      kill();
      reap();
    }
  }

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void kill() const { (void)::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0); }

  bool wait_for_output(const std::string& text) {
    while (finished_.out.find(text) == std::string::npos) {
      if (!output_ || !turn()) return false;
    }
    return true;
  }
  Finished finish() {
    while (output_ || error_) {
      if (turn()) continue;
      ADD_FAILURE() << "the program does not end; it said: " << finished_.err;
      kill();
      break;
    }
    pollfd end{pidfd_.get(), POLLIN, 0};
    if (::poll(&end, 1, left()) <= 0) kill();
    reap();
    return finished_;
  }

 private:
  [[nodiscard]] int left() const {
    const auto time = std::chrono::ceil<milliseconds>(deadline_ - Clock::now()).count();
    return static_cast<int>(std::max<std::int64_t>(time, 0));
  }
  bool turn() {
    pollfd places[] = {{output_ ? output_.get() : -1, POLLIN, 0},
                       {error_ ? error_.get() : -1, POLLIN, 0}};
    if (::poll(places, 2, left()) <= 0) return false;
    if (places[0].revents != 0) take(output_, finished_.out);
    if (places[1].revents != 0) take(error_, finished_.err);
    return true;
  }
  static void take(UniqueFd& from, std::string& to) {
    char bytes[4096];
    const ssize_t got = ::read(from.get(), bytes, sizeof(bytes));
    if (got > 0) {
      to.append(bytes, static_cast<std::size_t>(got));
    } else {
      from.reset();
    }
  }
  void reap() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    finished_.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  const TimePoint deadline_ = Clock::now() + kUserRunTimeMax;
  UniqueFd output_;
  UniqueFd error_;
  UniqueFd pidfd_;
  pid_t pid_ = -1;
  Finished finished_;
};

// Processes of the host for which `is_it` holds, by descriptor.
inline std::vector<UniqueFd> find_processes(
    const std::function<bool(const std::filesystem::path&)>& is_it) {
  std::vector<UniqueFd> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, std::stoi(name), 0)));
    if (pidfd && is_it(entry.path())) found.push_back(std::move(pidfd));
  }
  return found;
}

// With this word among its arguments.
inline std::vector<UniqueFd> processes_with(const std::string& word) {
  return find_processes([&](const std::filesystem::path& process) {
    std::ifstream file(process / "cmdline", std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();  // a process that ends meanwhile is a short text, no exception
    return text.str().find(word) != std::string::npos;
  });
}

// Running this file.
inline std::vector<UniqueFd> processes_of(const std::string& program) {
  return find_processes([&](const std::filesystem::path& process) {
    std::error_code failed;
    return std::filesystem::read_symlink(process / "exe", failed).string().starts_with(program);
  });
}

// True when all have ended, within a time that only a broken kill needs.
inline bool all_end(const std::vector<UniqueFd>& processes) {
  const TimePoint deadline = Clock::now() + seconds(30);
  for (const UniqueFd& process : processes) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
    pollfd end{process.get(), POLLIN, 0};
    if (::poll(&end, 1, static_cast<int>(std::max<std::int64_t>(left, 0))) <= 0) return false;
  }
  return true;
}

// A v2 group below the root that belongs to the person, as a service manager delegates one.
class DelegatedGroup {
 public:
  DelegatedGroup(const std::string& root, uid_t owner)
      : path_(root + "/caisson-test-" + SandboxId::random().value().str()) {
    if (::mkdir(path_.c_str(), 0755) != 0) throw std::runtime_error("no group");
    for (const char* name : {"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"}) {
      if (::chown((path_ + name).c_str(), owner, owner) != 0) throw std::runtime_error("no owner");
    }
  }
  DelegatedGroup(const DelegatedGroup&) = delete;
  DelegatedGroup& operator=(const DelegatedGroup&) = delete;
  ~DelegatedGroup() {
    std::ofstream(path_ + "/cgroup.kill") << 1;
    EXPECT_TRUE(wait_empty());
    for (const std::string& child : children()) ::rmdir(child.c_str());
    EXPECT_EQ(::rmdir(path_.c_str()), 0) << path_;
  }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::vector<std::string> children() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      if (entry.is_directory()) found.push_back(entry.path().string());
    }
    return found;
  }
  // The kernel wakes whoever polls cgroup.events when the last process of the tree has gone.
  [[nodiscard]] bool wait_empty() const {
    const UniqueFd events(::open((path_ + "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC));
    const TimePoint deadline = Clock::now() + seconds(30);
    for (;;) {
      char text[256];
      const ssize_t got = ::pread(events.get(), text, sizeof(text), 0);
      if (got > 0 &&
          std::string(text, static_cast<std::size_t>(got)).find("populated 0") != std::string::npos)
        return true;
      const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
      pollfd change{events.get(), POLLPRI, 0};
      if (left <= 0 || ::poll(&change, 1, static_cast<int>(left)) <= 0) return false;
    }
  }

 private:
  std::string path_;
};

}  // namespace caisson::test
