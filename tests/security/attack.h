// What the security tests share: the Python that a hostile tenant would write, and things of the
// host for it to look for. An attack prints one line per attempt, so that a test can say which wall
// gave way.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/unique_fd.h"
#include "sys/file.h"
#include "sys/namespace.h"
#include "tests/support/box.h"

namespace caisson::test {

// call() is a raw system call with 64-bit arguments; attempt() prints the name, a tab, and WORKED
// or the errno.
inline constexpr const char* kAttackPrelude = R"(
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *arguments):
    words = [ctypes.c_ulong(a & (1 << 64) - 1) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
def say(name, outcome):
    print(name, outcome, sep='\t', flush=True)
def attempt(name, act):
    try:
        seen = act()
        say(name, 'WORKED ' + repr(seen)[:200])
    except OSError as error:
        say(name, errno.errorcode.get(error.errno, str(error.errno)))
def read(path, size=4096):
    with open(path, 'rb') as file:
        return file.read(size)
# Unbuffered: the answer of the kernel must come before the attempt is over.
def write(path, text, flags=os.O_WRONLY):
    fd = os.open(path, flags)
    try:
        return os.write(fd, text.encode())
    finally:
        os.close(fd)
)";

inline std::string attack(const std::string& body) { return kAttackPrelude + body; }

// Attempt by attempt: the errno's name, or "WORKED …".
inline std::map<std::string, std::string> outcomes(const std::string& out) {
  std::map<std::string, std::string> found;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    if (tab != std::string::npos) found[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return found;
}

// The attack ran to its end, made at least `attempts_min` attempts, and none of them worked.
inline std::map<std::string, std::string> expect_all_refused(const control::ExecutionResult& result,
                                                             std::size_t attempts_min) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(result.timed_out);
  auto found = outcomes(result.out);
  EXPECT_GE(found.size(), attempts_min) << result.out << result.err;
  for (const auto& [name, outcome] : found)
    EXPECT_FALSE(outcome.starts_with("WORKED")) << name << ": " << outcome;
  return found;
}

inline std::function<void(control::LocalSpec&)> as_user(std::uint32_t id) {
  return [id](control::LocalSpec& local) {
    local.spec.request.uid = id;
    local.spec.request.gid = id;
  };
}

// Root that has its image's power over the other ids inside.
inline void as_root_of_image(control::LocalSpec& local) {
  as_user(0)(local);
  local.spec.request.root_capabilities = true;
}

inline void show_folder(control::LocalSpec& local, const std::string& host, engine::FolderMode mode,
                        const std::string& at) {
  auto fd = sys::open_at(AT_FDCWD, host, O_PATH | O_DIRECTORY);
  if (!fd) throw std::runtime_error(fd.error().message);
  local.spec.request.folders.push_back({at, mode});
  local.folders.push_back(std::move(*fd));
}

inline std::string random_word() { return SandboxId::random().value().str(); }

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A folder of the host, readable by everyone, that goes with the test.
class HostFolder {
 public:
  explicit HostFolder(const std::string& parent = "/tmp") : path_(parent + "/caisson-p-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr || ::chmod(path_.c_str(), 0755) != 0)
      throw std::runtime_error("no folder in " + parent);
  }
  HostFolder(const HostFolder&) = delete;
  HostFolder& operator=(const HostFolder&) = delete;
  ~HostFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string at(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0644) const {
    std::ofstream(at(name), std::ios::binary) << text;
    EXPECT_EQ(::chmod(at(name).c_str(), mode), 0);
    return at(name);
  }

 private:
  std::string path_;
};

// A process of the host for a guest to harm, with the given kernel ids.
class Victim {
 public:
  explicit Victim(uid_t id) {
    pid_ = ::fork();
    if (pid_ == 0) {
      if (::setresgid(id, id, id) != 0 || ::setresuid(id, id, id) != 0) ::_exit(99);
      for (;;) ::pause();
    }
    pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;
  ~Victim() {
    (void)::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool alive() const {
    pollfd wait{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&wait, 1, 0) == 0;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

enum class Place : std::uint8_t { Root, Behind };  // the sandbox's root, or what lies behind it

// Runs `body` as a process of ours that has joined namespaces of the sandbox, without its filter,
// its Landlock rules and its ids: so that only the namespaces themselves can say no. With
// CLONE_NEWUSER it has every capability of the guest's user namespace, without it the host's.
// `body` returns an exit status of 0 to 249.
template <class Body>
int in_namespaces(pid_t init, int namespaces, Body body, Place place = Place::Root) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, init, 0)));
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setns(pidfd.get(), namespaces) != 0) ::_exit(250);
    // The root is attached on a folder, and init is in a chroot of it.
    if ((namespaces & CLONE_NEWNS) != 0 && place == Place::Root &&
        (::chroot(sys::PendingNamespace::kEmptyFolder) != 0 || ::chdir("/") != 0))
      ::_exit(251);
    ::_exit(body());
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The first kernel id of the sandbox's range.
inline std::uint32_t first_id(pid_t init) {
  std::istringstream map(read_text("/proc/" + std::to_string(init) + "/uid_map"));
  std::uint32_t inside = 0;
  std::uint32_t outside = 0;
  map >> inside >> outside;
  return outside;
}

}  // namespace caisson::test
