#include "guest/init/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/init/capabilities.h"
#include "guest/init/sys.h"

namespace caisson::init {
namespace {

using wire::Step;

constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";
constexpr uint64_t kMessageQueueBytes = 64UL * 1024;
constexpr uint64_t kSignalsPending = 4096;
constexpr uint64_t kLockedBytes = 1024UL * 1024;

[[noreturn]] void fail(const TenantPlan& plan, Step step, long result) {
  plan.failure->sys_errno = static_cast<int32_t>(-result);
  plan.failure->step = static_cast<uint32_t>(step);
  _exit(127);
}

void require(const TenantPlan& plan, Step step, long result) {
  if (result < 0) fail(plan, step, result);
}

long answer(long result) { return result < 0 ? -errno : result; }

// A limit only goes down: init has no right to raise the hard one, and needs none.
long lower_limit(int resource, uint64_t wanted) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return -errno;
  limit.rlim_max = smaller<uint64_t>(limit.rlim_max, wanted);
  limit.rlim_cur = limit.rlim_max;
  return answer(setrlimit(resource, &limit));
}

// Another kernel need not know every limit: gVisor refuses to lower what it does not keep, and what
// it has none of (core files, message queues) cannot be used up there.
long lower_if_kept(const Config& config, int resource, uint64_t wanted) {
  const long done = lower_limit(resource, wanted);
  return config.carried && done == -EPERM ? 0 : done;
}

long set_session(const TenantPlan& plan) {
  if (setsid() < 0) return -errno;
  if (!plan.terminal) return 0;
  return answer(ioctl(plan.stdio[0], TIOCSCTTY, 0));
}

// Standard streams to 0…2, then nothing else of init's stays open but the ruleset and the report.
// This comes while the child still has init's id: afterwards a sibling could stop it and keep other
// tenants' pipes from closing.
long set_stdio(const TenantPlan& plan) {
  for (int i = 0; i < 3; ++i) {
    // Parent's descriptors are all beyond kFdFirstFree, or 0 for the null device, so none is
    // overwritten too early.
    if (plan.stdio[i] != i && dup2(plan.stdio[i], i) < 0) return -errno;
  }
  if (plan.report >= 0 && dup3(plan.report, kFdReport, O_CLOEXEC) < 0) return -errno;
  const long closed = close_from(3, kFdRuleset - 1);
  return closed < 0 ? closed : close_from(kFdFirstFree, ~0U);
}

// By system call: libc's wrappers signal other threads, of which there are none.
long set_ids(const TenantPlan& plan) {
  if (plan.config->has(wire::kConfigSingleId)) return 0;
  if (syscall(SYS_setgroups, plan.group_count, plan.groups) != 0) return -errno;
  if (syscall(SYS_setresgid, plan.gid, plan.gid, plan.gid) != 0) return -errno;
  return answer(syscall(SYS_setresuid, plan.uid, plan.uid, plan.uid));
}

long drop_privileges(const TenantPlan& plan) {
  const long kept = keep_capabilities(tenant_capabilities(*plan.config, plan.uid));
  if (kept < 0) return kept;
  return answer(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

// A kernel that does not know no_new_privs gives root the whole bounding set at every exec. Root of
// a sandbox that another kernel runs has it cut, so that there is nothing to give.
long cut_bounding_set(const TenantPlan& plan) {
  if (!plan.config->carried || plan.uid != 0) return 0;
  const uint64_t kept = tenant_capabilities(*plan.config, plan.uid);
  for (unsigned capability = 0; capability < 64; ++capability) {
    if (((kept >> capability) & 1U) != 0) continue;
    const int there = prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
    if (there < 0) return 0;  // past the last one
    if (there > 0 && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) return -errno;
  }
  return 0;
}

// The working directory must be inside the root: the kernel says "(unreachable)…" of one that is
// not.
long enter_cwd(const char* cwd) {
  if (chdir(cwd) != 0) return -errno;
  char seen[wire::kPathMax + 16];
  const long size = answer(syscall(SYS_getcwd, seen, sizeof(seen)));
  if (size < 0) return size;
  return seen[0] == '/' ? 0 : -EACCES;
}

bool goes_on_looking(int error) {
  return error == ENOENT || error == ENOTDIR || error == EACCES || error == ENAMETOOLONG;
}

// As execvpe does, but without its shell: a file that is no program is not handed to one.
long execute(const TenantPlan& plan) {
  const char* name = plan.argv[0];
  if (strchr(name, '/') != nullptr || *name == '\0') {
    execve(name, plan.argv, plan.envp);
    return -errno;
  }
  const size_t name_size = strlen(name);
  bool denied = false;
  char full[2 * wire::kPathMax];
  const char* next = plan.path != nullptr ? plan.path : kDefaultPath;
  while (next != nullptr) {
    const char* end = strchrnul(next, ':');
    const size_t size = static_cast<size_t>(end - next);
    if (size + name_size + 2 <= sizeof(full)) {
      memcpy(full, next, size);
      // An empty element is the working directory, as ever.
      if (size != 0) full[size] = '/';
      memcpy(full + size + (size != 0 ? 1 : 0), name, name_size + 1);
      execve(full, plan.argv, plan.envp);
      if (!goes_on_looking(errno)) return -errno;
      denied = denied || errno == EACCES;
    }
    next = *end == ':' ? end + 1 : nullptr;
  }
  return denied ? -EACCES : -ENOENT;
}

}  // namespace

long limit_self(const Config& config) {
  const wire::InitConfig& wanted = config.wire;
  long done = lower_if_kept(config, RLIMIT_CORE, wanted.core_bytes);
  if (done >= 0) done = lower_if_kept(config, RLIMIT_MSGQUEUE, kMessageQueueBytes);
  if (done >= 0) done = lower_if_kept(config, RLIMIT_SIGPENDING, kSignalsPending);
  if (done >= 0) done = lower_limit(RLIMIT_MEMLOCK, kLockedBytes);
  if (done >= 0 && wanted.file_bytes != 0) done = lower_limit(RLIMIT_FSIZE, wanted.file_bytes);
  return done;
}

long limit_child(const Config& config) {
  long done = 0;
  if (config.wire.open_files != 0) done = lower_limit(RLIMIT_NOFILE, config.wire.open_files);
  // Counted per user, so only the child's own count may be held against it.
  if (done >= 0 && config.wire.processes != 0)
    done = lower_limit(RLIMIT_NPROC, config.wire.processes);
  return done;
}

// init handles no signal, it only blocks them all, so there are no dispositions to reset.
long reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  return answer(sigprocmask(SIG_SETMASK, &none, nullptr));
}

void run_tenant(const TenantPlan& plan) {
  require(plan, Step::Session, set_session(plan));
  if (plan.attendant != nullptr) require(plan, Step::Session, leave_attendant(*plan.attendant));
  require(plan, Step::Stdio, set_stdio(plan));
  require(plan, Step::Rlimit, limit_child(*plan.config));
  require(plan, Step::Ids, cut_bounding_set(plan));
  require(plan, Step::Ids, set_ids(plan));
  require(plan, Step::Ids, drop_privileges(plan));
  require(plan, Step::Session, reset_signals());
  umask(022);
  require(plan, Step::Cwd, enter_cwd(plan.cwd));
  if (plan.config->landlock) require(plan, Step::Landlock, landlock_restrict_self(kFdRuleset));
  if (plan.config->filter.len != 0)
    require(plan, Step::Seccomp, install_filter(&plan.config->filter));
  require(plan, Step::Stdio, close_on_exec_from(3));
  fail(plan, Step::Exec, execute(plan));
}

}  // namespace caisson::init
