// The order: groups first, while they can be named; mounts as host root; then the ids and every
// power go, and nothing but exec follows.
#include "engine/microvm/jail/jail_child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "sys/file.h"
#include "sys/raw.h"

namespace caisson::engine::microvm {
namespace {

namespace raw = sys::raw;

constexpr std::uint64_t kResolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
constexpr int kCapabilityMax = 63;
constexpr char kHostname[] = "monitor";
// Any folder of whatever mounts we come from: the new root is attached on it, and stays.
constexpr char kPlace[] = "/usr";

[[noreturn]] void fail(JailPlan& plan, JailStep step) noexcept {
  plan.sys_errno = errno;
  plan.failed = step;
  ::_exit(127);
}

void join(JailPlan& plan) noexcept {
  if (raw::close_range(sys::kParkedFdMin, ~0U, CLOSE_RANGE_UNSHARE) != 0)
    fail(plan, JailStep::CloseDescriptors);
  for (std::size_t i = 0; i < plan.task_count; ++i) {
    if (::write(plan.tasks[i], "0", 1) != 1) fail(plan, JailStep::JoinGroup);
  }
}

// What there is in a file; holes stay holes.
void copy(JailPlan& plan, const JailCopied& what) noexcept {
  for (off_t at = 0;;) {
    const off_t begin = ::lseek(what.from, at, SEEK_DATA);
    if (begin < 0 && errno == ENXIO) return;
    const off_t end = begin < 0 ? -1 : ::lseek(what.from, begin, SEEK_HOLE);
    if (end < 0 || ::lseek(what.to, begin, SEEK_SET) != begin) fail(plan, JailStep::Copy);
    for (off_t from = begin; from < end;) {
      const ssize_t put =
          ::sendfile(what.to, what.from, &from, static_cast<std::size_t>(end - from));
      if (put <= 0) fail(plan, JailStep::Copy);
    }
    at = end;
  }
}

void build_root(JailPlan& plan) noexcept {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    fail(plan, JailStep::PrivateMounts);
  const int place = ::open(kPlace, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (place < 0 || raw::attach_mount(plan.root, place) != 0) fail(plan, JailStep::AttachRoot);
  for (std::size_t i = 0; i < plan.mount_count; ++i) {
    const int at = raw::openat2(plan.root, plan.mounts[i].target, O_PATH | O_CLOEXEC, kResolve);
    if (at < 0 || raw::attach_mount(plan.mounts[i].mount, at) != 0)
      fail(plan, JailStep::AttachMount);
  }
  if (::fchdir(plan.root) != 0 || raw::pivot_root(".", ".") != 0 ||
      ::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0)
    fail(plan, JailStep::SwitchRoot);
}

void lower_limit(JailPlan& plan, __rlimit_resource what, std::uint64_t most) noexcept {
  const rlimit limit{most, most};
  if (::setrlimit(what, &limit) != 0) fail(plan, JailStep::Limits);
}

void limit_self(JailPlan& plan) noexcept {
  lower_limit(plan, RLIMIT_CORE, 0);
  lower_limit(plan, RLIMIT_NOFILE, plan.files_max);
  lower_limit(plan, RLIMIT_MEMLOCK, 0);
  lower_limit(plan, RLIMIT_MSGQUEUE, 0);
  if (plan.file_bytes_max != 0) lower_limit(plan, RLIMIT_FSIZE, plan.file_bytes_max);
  lower_limit(plan, RLIMIT_NPROC, plan.tasks_max);
}

// None, for a monitor.
void keep_capabilities(JailPlan& plan) noexcept {
  if (raw::capset(plan.capabilities, plan.capabilities, plan.capabilities) != 0)
    fail(plan, JailStep::Capabilities);
  for (int capability = 0; capability <= kCapabilityMax; ++capability) {
    if (((plan.capabilities >> capability) & 1U) == 0) continue;
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) != 0)
      fail(plan, JailStep::Capabilities);
  }
}

void drop_privileges(JailPlan& plan) noexcept {
  if (::sethostname(kHostname, sizeof(kHostname) - 1) != 0) fail(plan, JailStep::Hostname);
  if (::unshare(CLONE_NEWCGROUP) != 0) fail(plan, JailStep::CgroupNamespace);
  if (plan.user_namespace >= 0 && ::setns(plan.user_namespace, CLONE_NEWUSER) != 0)
    fail(plan, JailStep::EnterUserNamespace);
  for (int capability = 0; capability <= kCapabilityMax; ++capability) {
    if (((plan.capabilities >> capability) & 1U) != 0) continue;
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    if (errno == EINVAL) break;  // past the last one this kernel knows
    fail(plan, JailStep::BoundingSet);
  }
  if (raw::drop_groups() != 0 || raw::setresgid(plan.id) != 0) fail(plan, JailStep::Ids);
  limit_self(plan);
  if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 || raw::setresuid(plan.id) != 0)
    fail(plan, JailStep::Ids);
  keep_capabilities(plan);
  if (raw::join_session_keyring() < 0 && errno != ENOSYS) fail(plan, JailStep::Keyring);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail(plan, JailStep::NoNewPrivileges);
  if (::setsid() < 0) fail(plan, JailStep::Session);
  // After the ids, whose change takes it away; exec keeps it. An orphan dies with its process 1.
  if (!plan.orphaned && ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
    fail(plan, JailStep::DieWithParent);
}

[[noreturn]] void exec_monitor(JailPlan& plan) noexcept {
  // All sources lie above the targets, so no move overwrites a source.
  for (std::size_t i = 0; i < plan.descriptor_count; ++i) {
    if (::dup2(plan.descriptors[i], static_cast<int>(i)) < 0) fail(plan, JailStep::Descriptors);
  }
  if (raw::close_range(static_cast<unsigned>(plan.descriptor_count), ~0U, CLOSE_RANGE_CLOEXEC) != 0)
    fail(plan, JailStep::Descriptors);
  if (plan.orphaned) {
    // The child of the child shares its memory, and the child waits until it has executed.
    const pid_t pid = ::vfork();
    if (pid < 0) fail(plan, JailStep::Orphan);
    if (pid != 0) ::_exit(plan.failed == JailStep::None ? 0 : 127);
  }
  ::execve(plan.program, plan.argv, plan.envp);
  fail(plan, JailStep::Exec);
}

}  // namespace

void jail_main(void* argument) noexcept {
  JailPlan& plan = *static_cast<JailPlan*>(argument);
  join(plan);
  for (std::size_t i = 0; i < plan.copy_count; ++i) copy(plan, plan.copies[i]);
  build_root(plan);
  drop_privileges(plan);
  exec_monitor(plan);
}

const char* to_string(JailStep step) noexcept {
  switch (step) {
    case JailStep::None:
      return "nothing";
    case JailStep::CloseDescriptors:
      return "close the launcher's descriptors";
    case JailStep::JoinGroup:
      return "join a control group";
    case JailStep::Copy:
      return "copy a file";
    case JailStep::PrivateMounts:
      return "make all mounts private";
    case JailStep::AttachRoot:
      return "attach the jail's root";
    case JailStep::AttachMount:
      return "attach a mount";
    case JailStep::SwitchRoot:
      return "switch to the jail's root";
    case JailStep::Hostname:
      return "set the host name";
    case JailStep::CgroupNamespace:
      return "make a cgroup namespace";
    case JailStep::EnterUserNamespace:
      return "enter the slot's user namespace";
    case JailStep::Limits:
      return "lower limits";
    case JailStep::BoundingSet:
      return "cut the bounding set";
    case JailStep::Ids:
      return "take the monitor's ids";
    case JailStep::Capabilities:
      return "drop capabilities";
    case JailStep::Keyring:
      return "join a new session keyring";
    case JailStep::NoNewPrivileges:
      return "set no_new_privs";
    case JailStep::Session:
      return "start a session";
    case JailStep::DieWithParent:
      return "die with the launcher";
    case JailStep::Descriptors:
      return "place the monitor's descriptors";
    case JailStep::Orphan:
      return "start a process of its own";
    case JailStep::Exec:
      return "start the monitor";
  }
  return "nothing";
}

}  // namespace caisson::engine::microvm
