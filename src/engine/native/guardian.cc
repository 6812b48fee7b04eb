#include "engine/native/guardian.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "engine/native/slots.h"
#include "sys/file.h"
#include "sys/raw.h"

namespace caisson::engine::native {

// Everything the guardian needs, in place before it starts.
struct Guardian::Post {
  static constexpr std::size_t kStackBytes = std::size_t{32} * 1024;
  int run = -1;  // pidfd of the process we wait for
  SlotRecord record;
  char name[64] = {};  // of the group, in each hierarchy
  int v2 = -1;
  std::array<int, kControllers> v1{};
  alignas(16) std::array<std::byte, kStackBytes> stack;

  [[noreturn]] static void main(void* post) noexcept;
};

namespace {

constexpr int kPatienceMs = 5000;
constexpr int kRoundsMax = 64;
constexpr int kLowestPriority = 19;

bool write_file(int dir, const char* name, const char* text, std::size_t size) noexcept {
  const int fd = ::openat(dir, name, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = ::write(fd, text, size) == static_cast<ssize_t>(size);
  ::close(fd);
  return written;
}

// Until no process is in the group any more, or patience ends.
void wait_until_empty(int group) noexcept {
  const int fd = ::openat(group, "cgroup.events", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  for (int round = 0; round < kRoundsMax; ++round) {
    char text[256];
    const ssize_t got = ::pread(fd, text, sizeof(text) - 1, 0);
    if (got <= 0) break;
    text[got] = '\0';
    if (std::strstr(text, "populated 0") != nullptr) break;
    pollfd one{fd, POLLPRI, 0};
    if (::poll(&one, 1, kPatienceMs) <= 0) break;
  }
  ::close(fd);
}

// The groups of execs, "e0", "e1", …
void remove_children(int group) noexcept {
  alignas(8) std::array<char, 4096> entries;
  for (int round = 0; round < kRoundsMax; ++round) {
    const long got = ::syscall(SYS_getdents64, group, entries.data(), entries.size());
    if (got <= 0) return;
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      if (entry->d_name[0] == 'e') (void)::unlinkat(group, entry->d_name, AT_REMOVEDIR);
      at += entry->d_reclen;
    }
  }
}

}  // namespace

void Guardian::Post::main(void* argument) noexcept {
  const Post& post = *static_cast<const Post*>(argument);
  (void)::setsid();
  pollfd death{post.run, POLLIN, 0};
  while (::poll(&death, 1, -1) < 0 && errno == EINTR) {
  }
  // Nobody waits for us: whatever the caller does next goes first.
  (void)::setpriority(PRIO_PROCESS, 0, kLowestPriority);
  // Whoever reads the run's output is waiting for its end.
  (void)sys::raw::close_range(STDIN_FILENO, STDERR_FILENO, 0);
  const int group = ::openat(post.v2, post.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (group >= 0) {
    (void)write_file(group, "cgroup.kill", "1", 1);
    wait_until_empty(group);
    remove_children(group);
    (void)::unlinkat(post.v2, post.name, AT_REMOVEDIR);
  }
  for (const int v1 : post.v1) {
    if (v1 >= 0) (void)::unlinkat(v1, post.name, AT_REMOVEDIR);
  }
  // The lock on the record goes with the descriptor, which is ours alone by now.
  if (post.record.table >= 0) clear_record(post.record.table, post.record.slot);
  ::_exit(0);
}

Guardian::Guardian() = default;
Guardian::Guardian(Guardian&&) noexcept = default;
Guardian& Guardian::operator=(Guardian&&) noexcept = default;
Guardian::~Guardian() = default;

bool Guardian::on_duty() const noexcept {
  if (!child_.alive()) return false;
  pollfd death{child_.pidfd(), POLLIN, 0};
  return ::poll(&death, 1, 0) == 0;
}

void Guardian::dismiss() const noexcept {
  if (child_.alive()) (void)child_.signal(SIGKILL);
}

Result<Guardian> Guardian::start(const GroupRoots& roots, const std::string& id,
                                 SlotRecord record) {
  Guardian guardian;
  if (roots.v2() < 0) return guardian;
  guardian.post_ = std::make_unique_for_overwrite<Post>();
  Post& post = *guardian.post_;
  const std::string name = GroupRoots::group_name(id);
  CAISSON_ASSERT(name.size() < sizeof(post.name));
  std::memcpy(post.name, name.c_str(), name.size() + 1);
  post.v2 = roots.v2();
  for (std::size_t i = 0; i < kControllers; ++i) post.v1[i] = roots.v1(kAllControllers[i]);
  post.record = record;
  UniqueFd self(sys::raw::pidfd_open(::getpid()));
  if (!self) return sys_failure("start the guardian", errno);
  guardian.self_ = TRY(sys::park(std::move(self)));
  post.run = guardian.self_.get();
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = CLONE_VM | CLONE_FILES | CLONE_PIDFD;
  arguments.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  arguments.stack = reinterpret_cast<std::uint64_t>(post.stack.data());
  arguments.stack_size = Post::kStackBytes;
  const long pid = sys::raw::clone3_on_stack(arguments, Post::main, &post);
  if (pid < 0) return sys_failure("start the guardian", errno);
  guardian.child_ = sys::Child::adopt(static_cast<pid_t>(pid), UniqueFd(pidfd));
  return guardian;
}

}  // namespace caisson::engine::native
