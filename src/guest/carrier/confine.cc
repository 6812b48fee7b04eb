// The carrier reads hostile bytes and owns sockets only. So what it may call fits a short list, and
// what is not on it kills: there is no program here that would have to cope with a refusal.
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/carrier/carrier.h"

#if !defined(__x86_64__)
#error "the carrier's list of system calls is for x86-64 only"
#endif

namespace caisson::carrier {
namespace {

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_restrict_self 446
#endif

constexpr sock_filter statement(int code, size_t value) {
  return {static_cast<uint16_t>(code), 0, 0, static_cast<uint32_t>(value)};
}
constexpr sock_filter unless_equal(size_t value, uint8_t skip) {
  return {BPF_JMP | BPF_JEQ | BPF_K, 0, skip, static_cast<uint32_t>(value)};
}
constexpr sock_filter if_equal(size_t value, uint8_t skip) {
  return {BPF_JMP | BPF_JEQ | BPF_K, skip, 0, static_cast<uint32_t>(value)};
}

constexpr long kCalls[] = {
    SYS_read,       SYS_write,     SYS_recvmsg,      SYS_sendto,      SYS_sendmsg,
    SYS_recvfrom,   SYS_close,     SYS_connect,      SYS_shutdown,    SYS_setsockopt,
    SYS_getsockopt, SYS_epoll_ctl, SYS_epoll_wait,   SYS_epoll_pwait, SYS_clock_gettime,
    SYS_exit_group, SYS_exit,      SYS_rt_sigreturn, SYS_munmap,      SYS_madvise,
};
constexpr size_t kCallCount = sizeof(kCalls) / sizeof(kCalls[0]);
// Sockets of the internet families and memory that cannot be executed: judged by their arguments.
constexpr size_t kBefore = 4;
constexpr size_t kJudged = 10;

struct Program {
  sock_filter code[kBefore + kCallCount + kJudged];
};

constexpr uint32_t argument(int which) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * static_cast<size_t>(which));
}

constexpr Program list_calls() {
  Program out{};
  size_t at = 0;
  const auto add = [&](sock_filter one) { out.code[at++] = one; };
  add(statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)));
  add(if_equal(AUDIT_ARCH_X86_64, 1));
  add(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  add(statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  // The last statement allows; each line knows how far it is.
  constexpr size_t kAllow = kBefore + kCallCount + kJudged - 1;
  for (const long call : kCalls) {
    const auto skip = static_cast<uint8_t>(kAllow - at - 1);
    add(if_equal(static_cast<size_t>(call), skip));
  }
  add(unless_equal(SYS_socket, 3));
  add(statement(BPF_LD | BPF_W | BPF_ABS, argument(0)));
  add(if_equal(AF_INET, 6));
  add({BPF_JMP | BPF_JEQ | BPF_K, 5, 4, AF_INET6});
  add(unless_equal(SYS_mmap, 3));
  add(statement(BPF_LD | BPF_W | BPF_ABS, argument(2)));
  add(statement(BPF_ALU | BPF_AND | BPF_K, PROT_EXEC));
  add(if_equal(0, 1));
  add(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  add(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return out;
}

constexpr Program kProgram = list_calls();

// init's, which this program is started with in its place: it starts nobody, so it needs none.
long give_up_capabilities() {
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return -errno;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  return syscall(SYS_capset, &header, none) != 0 ? -errno : 0;
}

// A second wall behind the filter, which lets nothing be opened: no file at all. Kernels without
// Landlock have the first one alone.
long renounce_files() {
  constexpr uint64_t kFirstAbi = (1U << 13) - 1;
  const uint64_t handled = kFirstAbi;
  const long ruleset = syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);
  if (ruleset < 0) return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
  const long entered = syscall(SYS_landlock_restrict_self, ruleset, 0);
  const int reason = errno;
  close(static_cast<int>(ruleset));
  return entered < 0 ? -reason : 0;
}

}  // namespace

long confine() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -errno;
  const long given_up = give_up_capabilities();
  if (given_up < 0) return given_up;
  const long renounced = renounce_files();
  if (renounced < 0) return renounced;
  const sock_fprog program{sizeof(kProgram.code) / sizeof(kProgram.code[0]),
                           const_cast<sock_filter*>(kProgram.code)};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0 ? -errno : 0;
}

}  // namespace caisson::carrier
