#include "guest/init/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace caisson::init {
namespace {

constexpr uint64_t kCloneIntoCgroup = 0x200000000ULL;
constexpr unsigned kCloseRangeCloexec = 1U << 2;
constexpr unsigned kDescriptorsMax =
    4096;  // init never holds more; only kernels without close_range walk them
// gVisor takes these numbers for signed ones.
constexpr unsigned kDescriptorLast = 0x7fffffff;
constexpr int kPathBeneath = 1;  // LANDLOCK_RULE_PATH_BENEATH

#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

long answer(long result) { return result < 0 ? -errno : result; }

}  // namespace

long fork_into(int group) {
  CloneArgs args{};
  args.exit_signal = SIGCHLD;
  if (group >= 0) {
    args.flags = kCloneIntoCgroup;
    args.cgroup = static_cast<uint64_t>(group);
  }
  const long pid = answer(syscall(SYS_clone3, &args, sizeof(args)));
  // A kernel without clone3 has no group to be born into either; a plain fork is the same thing
  // there.
  if (pid == -ENOSYS && group < 0) return answer(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  return pid;
}

long close_from(unsigned first, unsigned last) {
  last = smaller(last, kDescriptorLast);
  const long done = answer(syscall(SYS_close_range, first, last, 0));
  if (done != -ENOSYS) return done;
  for (unsigned fd = first; fd <= last && fd < kDescriptorsMax; ++fd) close(static_cast<int>(fd));
  return 0;
}

long close_on_exec_from(unsigned first) {
  const long done = answer(syscall(SYS_close_range, first, kDescriptorLast, kCloseRangeCloexec));
  if (done != -ENOSYS && done != -EINVAL) return done;
  for (unsigned fd = first; fd < kDescriptorsMax; ++fd)
    fcntl(static_cast<int>(fd), F_SETFD, FD_CLOEXEC);
  return 0;
}

long landlock_create_ruleset(const void* attributes, size_t size, uint32_t flags) {
  return answer(syscall(SYS_landlock_create_ruleset, attributes, size, flags));
}

long landlock_add_path(int ruleset, const void* path_beneath) {
  return answer(syscall(SYS_landlock_add_rule, ruleset, kPathBeneath, path_beneath, 0));
}

long landlock_restrict_self(int ruleset) {
  return answer(syscall(SYS_landlock_restrict_self, ruleset, 0));
}

long install_filter(const sock_fprog* program) {
  return answer(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program));
}

long keep_capabilities(uint64_t kept) {
  // A kernel without the ambient set has nothing in it.
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL)
    return -errno;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  sets[0].permitted = sets[0].effective = static_cast<uint32_t>(kept);
  sets[1].permitted = sets[1].effective = static_cast<uint32_t>(kept >> 32U);
  return answer(syscall(SYS_capset, &header, sets));
}

long rename_at(int from_dir, const char* from, int to_dir, const char* to, unsigned flags) {
  return answer(syscall(SYS_renameat2, from_dir, from, to_dir, to, flags));
}

long read_folder(int fd, void* buffer, size_t size) {
  const long got = answer(syscall(SYS_getdents64, fd, buffer, size));
  return got == -ENOENT ? 0 : got;  // it was removed under us: nothing is in it any more
}

bool on_proc(int fd) {
  constexpr auto kProcMagic = 0x9fa0;  // PROC_SUPER_MAGIC
  struct statfs facts{};
  // What cannot be asked is not read either.
  return fstatfs(fd, &facts) != 0 || facts.f_type == kProcMagic;
}

void close_fd(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

long chmod_fd(int fd, uint32_t mode) {
  if (syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH) == 0) return 0;
  // A kernel without that call: procfs leads to the same file.
  char path[] = "/proc/self/fd/0000000000";
  char* at = path + sizeof(path) - 1;
  unsigned rest = static_cast<unsigned>(fd);
  do {
    *--at = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  constexpr size_t kFolder = sizeof("/proc/self/fd/") - 1;
  memmove(path + kFolder, at, strlen(at) + 1);
  return answer(chmod(path, mode));
}

void open_up_folder(int fd, uint32_t needed) {
  struct stat info{};
  if (fstat(fd, &info) != 0 || !S_ISDIR(info.st_mode)) return;
  if ((info.st_mode & needed) == needed) return;
  (void)chmod_fd(fd, (info.st_mode | S_IRWXU) & 07777U);
}

ssize_t receive_with_descriptor(int socket, void* to, size_t size, int& fd) {
  fd = -1;
  iovec data{to, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof(int));
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return got;
  const cmsghdr* part = CMSG_FIRSTHDR(&message);
  const bool rights =
      part != nullptr && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS;
  if (rights && part->cmsg_len >= CMSG_LEN(sizeof(int))) memcpy(&fd, CMSG_DATA(part), sizeof(int));
  return got;
}

bool is_stream_socket(int fd) {
  int type = 0;
  socklen_t size = sizeof(type);
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

uint8_t* map_unshared(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  madvise(at, bytes,
          MADV_DONTFORK);  // only a saving: a child that has the pages does not look at them
  return static_cast<uint8_t*>(at);
}

void unmap(uint8_t* at, size_t bytes) {
  if (at != nullptr) munmap(at, bytes);
}

}  // namespace caisson::init
