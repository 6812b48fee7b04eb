#include "sys/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>

#include "sys/file.h"
#include "sys/raw.h"

namespace caisson::sys {
namespace {

class SpawnWishes {
 public:
  SpawnWishes() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
  }
  SpawnWishes(const SpawnWishes&) = delete;
  SpawnWishes& operator=(const SpawnWishes&) = delete;
  ~SpawnWishes() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  posix_spawn_file_actions_t* actions() noexcept { return &actions_; }
  posix_spawnattr_t* attributes() noexcept { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

Result<Child> spawn(const std::string& program, const std::vector<std::string>& arguments,
                    std::span<const HandedFd> handed, Session session) {
  int highest = STDERR_FILENO;
  for (const HandedFd& one : handed) highest = std::max(highest, one.number);
  SpawnWishes wishes;
  std::vector<UniqueFd> lifted;
  for (const HandedFd& one : handed) {
    if (one.path != nullptr) {
      ::posix_spawn_file_actions_addopen(wishes.actions(), one.number, one.path, O_RDWR, 0);
      continue;
    }
    // dup2 onto itself would leave close-on-exec set, and onto another's number would lose that
    // one.
    lifted.push_back(TRY(duplicate(one.fd, highest + 1)));
    ::posix_spawn_file_actions_adddup2(wishes.actions(), lifted.back().get(), one.number);
  }
  if (session == Session::Own) ::posix_spawnattr_setflags(wishes.attributes(), POSIX_SPAWN_SETSID);
  std::vector<std::string> words = arguments;
  std::vector<char*> argv;
  std::string name = program;
  argv.push_back(name.data());
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int reason = ::posix_spawnp(&pid, program.c_str(), wishes.actions(), wishes.attributes(),
                                    argv.data(), environ);
  if (reason != 0) return sys_failure("start '" + program + "'", reason);
  UniqueFd pidfd(raw::pidfd_open(pid));
  if (!pidfd) return sys_failure("watch '" + program + "'", errno);
  return Child::adopt(pid, std::move(pidfd));
}

}  // namespace caisson::sys
