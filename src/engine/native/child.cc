// The order is a promise (docs/SECURITY.md) and each step leans on those before it: groups are
// joined before the cgroup namespace hides them; mounts, masks and proc are made as host root,
// before the user namespace is entered, and the mount namespace made inside it locks their flags;
// capabilities go last, because every step before needs some.
#include "engine/native/child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "guest/protocol/protocol.h"
#include "sys/file.h"
#include "sys/raw.h"

namespace caisson::engine::native {
namespace {

namespace raw = sys::raw;

// Nothing below closes what it opened: every descriptor is close-on-exec, and exec follows.

// Beneath the new root, through no link: a target is what we made, or the launch fails.
constexpr std::uint64_t kResolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

constexpr int kCapabilityMax = 63;
// Between the numbers that init's descriptors take and those of the launcher's.
constexpr int kFdBehind = 15;

[[noreturn]] void fail(ChildPlan& plan, ChildStep step, const char* detail = nullptr) noexcept {
  plan.sys_errno = errno;
  plan.detail = detail;
  plan.failed = step;
  ::_exit(127);
}

void join(ChildPlan& plan) noexcept {
  // A table of our own with the few low numbers: what the launcher holds for other sandboxes is not
  // copied.
  if (raw::close_range(sys::kParkedFdMin, ~0U, CLOSE_RANGE_UNSHARE) != 0)
    fail(plan, ChildStep::CloseDescriptors);
  for (std::size_t i = 0; i < plan.task_count; ++i) {
    if (::write(plan.tasks[i], "0", 1) != 1) fail(plan, ChildStep::JoinGroup);
  }
  if (::setns(plan.network, CLONE_NEWNET) != 0) fail(plan, ChildStep::EnterNetwork);
  if (plan.ipc >= 0 && ::setns(plan.ipc, CLONE_NEWIPC) != 0) fail(plan, ChildStep::EnterIpc);
}

int open_target(const ChildPlan& plan, const char* target) noexcept {
  return raw::openat2(plan.root, target, O_PATH | O_CLOEXEC, kResolve);
}

void attach(ChildPlan& plan, int mount, const char* target, ChildStep step) noexcept {
  const int at = open_target(plan, target);
  if (at < 0 || raw::attach_mount(mount, at) != 0) fail(plan, step, target);
}

int new_proc(ChildPlan& plan) noexcept {
  const int context = raw::fsopen("proc");
  if (context < 0 || raw::fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    fail(plan, ChildStep::MountProc);
  }
  const int proc = raw::fsmount(context, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  if (proc < 0) fail(plan, ChildStep::MountProc);
  return proc;
}

// What covers the parts of /proc that speak of the host: the guest's null device over a file, its
// empty /sys over a folder. Both are ours: the launcher made them, and nobody else has been here
// yet.
constexpr const char* kNull = "../dev/null";
constexpr const char* kEmpty = "../sys";

// What it is stays what it was, but for writing.
int deny_writing(const char* name) noexcept {
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY;
  return raw::mount_setattr(AT_FDCWD, name, AT_SYMLINK_NOFOLLOW, attributes);
}

void mask(ChildPlan& plan, const ChildMask& what) noexcept {
  if (::mount(what.folder ? kEmpty : kNull, what.name, nullptr, MS_BIND, nullptr) != 0) {
    if (errno == ENOENT) return;  // it was there when the launcher looked
    fail(plan, ChildStep::MaskProc, what.name);
  }
  // /dev is read-only as it is; the root, whose /sys covers folders, may not be.
  if (what.folder && deny_writing(what.name) != 0) fail(plan, ChildStep::MaskProc, what.name);
}

void make_read_only(ChildPlan& plan, const char* name) noexcept {
  if (::mount(name, name, nullptr, MS_BIND, nullptr) != 0) {
    if (errno == ENOENT) return;  // this kernel has none
    fail(plan, ChildStep::MaskProc, name);
  }
  if (deny_writing(name) != 0) fail(plan, ChildStep::MaskProc, name);
}

// By names and not by descriptors, which would take twice as many calls. They are proc's own, or of
// mounts that were attached through no link.
void mount_proc(ChildPlan& plan) noexcept {
  const int proc = new_proc(plan);
  attach(plan, proc, "proc", ChildStep::MountProc);
  if (plan.plain_proc) return;
  // These would be followed where an image has made a link of them.
  if (open_target(plan, "dev/null") < 0) fail(plan, ChildStep::MaskProc, "dev/null");
  if (open_target(plan, "sys") < 0) fail(plan, ChildStep::MaskProc, "sys");
  if (::fchdir(proc) != 0) fail(plan, ChildStep::MountProc);
  for (const char* const* name = plan.read_only; *name != nullptr; ++name)
    make_read_only(plan, *name);
  for (std::size_t i = 0; i < plan.mask_count; ++i) mask(plan, plan.masks[i]);
}

void switch_root(ChildPlan& plan) noexcept {
  if (::fchdir(plan.root) != 0) fail(plan, ChildStep::SwitchRoot, "chdir");
  if (plan.root_switch == RootSwitch::Pivot) {
    if (raw::pivot_root(".", ".") != 0) fail(plan, ChildStep::SwitchRoot, "pivot_root");
    if (::umount2(".", MNT_DETACH) != 0) fail(plan, ChildStep::SwitchRoot, "detach");
  } else {
    // Nothing of the host may stay mounted underneath: a chroot is a wall only where nothing is
    // behind it.
    if (plan.kept != nullptr && ::umount2(plan.kept, MNT_DETACH) != 0)
      fail(plan, ChildStep::SwitchRoot, plan.kept);
    const int base = ::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    plan.base = base < 0 ? -1 : ::dup3(base, kFdBehind, O_CLOEXEC);
    if (plan.base < 0) fail(plan, ChildStep::SwitchRoot, "what lies behind the root");
    if (::chroot(".") != 0) fail(plan, ChildStep::SwitchRoot, "chroot");
  }
  if (::chdir("/") != 0) fail(plan, ChildStep::SwitchRoot, "chdir /");
}

void build_root(ChildPlan& plan) noexcept {
  if (plan.mount_namespace >= 0) {
    if (::setns(plan.mount_namespace, CLONE_NEWNS) != 0) fail(plan, ChildStep::EnterMounts);
    if (plan.copies_mounts && ::unshare(CLONE_NEWNS) != 0) fail(plan, ChildStep::EnterMounts);
  } else if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    fail(plan, ChildStep::PrivateMounts);
  }
  const int place = ::open(plan.place, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (place < 0 || raw::attach_mount(plan.root, place) != 0) fail(plan, ChildStep::AttachRoot);
  for (std::size_t i = 0; i < plan.mount_count; ++i) {
    attach(plan, plan.mounts[i].mount, plan.mounts[i].target, ChildStep::AttachMount);
  }
  mount_proc(plan);
  switch_root(plan);
}

void enter_namespaces(ChildPlan& plan) noexcept {
  if (plan.hostname != nullptr && ::sethostname(plan.hostname, plan.hostname_size) != 0)
    fail(plan, ChildStep::Hostname);
  if (plan.cgroup_namespace && ::unshare(CLONE_NEWCGROUP) != 0)
    fail(plan, ChildStep::CgroupNamespace);
  if (::setns(plan.user_namespace, CLONE_NEWUSER) != 0) fail(plan, ChildStep::EnterUserNamespace);
  // A copy of all mounts that belongs to the inner user namespace: what came from outside is locked
  // in it.
  if (::unshare(CLONE_NEWNS) != 0) fail(plan, ChildStep::MountNamespace);
}

void drop_privileges(ChildPlan& plan) noexcept {
  if (!plan.single_id && raw::drop_groups() != 0) fail(plan, ChildStep::Groups);
  for (int capability = 0; capability <= kCapabilityMax; ++capability) {
    if (((plan.capabilities >> capability) & 1U) != 0) continue;
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
      if (errno == EINVAL) break;  // past the last one this kernel knows
      fail(plan, ChildStep::BoundingSet);
    }
  }
  if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) fail(plan, ChildStep::Ids, "keep capabilities");
  if (raw::setresgid(plan.init_gid) != 0) fail(plan, ChildStep::Ids, "group");
  if (raw::setresuid(plan.init_uid) != 0) fail(plan, ChildStep::Ids, "user");
  // Inheritable and ambient too: an ordinary exec by an ordinary id would clear the rest.
  if (raw::capset(plan.capabilities, plan.capabilities, plan.capabilities) != 0)
    fail(plan, ChildStep::Capabilities);
  for (int capability = 0; capability <= kCapabilityMax; ++capability) {
    if (((plan.capabilities >> capability) & 1U) == 0) continue;
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) != 0)
      fail(plan, ChildStep::Capabilities);
  }
  // After the ids, so that the keyring is the inner id's; kernels without keyrings have nothing to
  // hide.
  if (raw::join_session_keyring() < 0 && errno != ENOSYS) fail(plan, ChildStep::Keyring);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail(plan, ChildStep::NoNewPrivileges);
  if (::setsid() < 0) fail(plan, ChildStep::Session);
}

// Puts `from` at `to`. All sources lie above the targets, so no move overwrites a source.
void place_descriptor(ChildPlan& plan, int from, int to) noexcept {
  if (from < 0) {
    ::close(to);
    return;
  }
  if (::dup2(from, to) != to) fail(plan, ChildStep::Descriptors);
}

// Of another program, the descriptors it was promised.
void place_handed(ChildPlan& plan) noexcept {
  int last = -1;
  for (std::size_t i = 0; i < plan.descriptor_count; ++i) {
    place_descriptor(plan, plan.descriptors[i].from, plan.descriptors[i].to);
    last = plan.descriptors[i].to;
  }
  if (raw::close_range(static_cast<unsigned>(last) + 1, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
    fail(plan, ChildStep::Descriptors);
}

[[noreturn]] void execute(ChildPlan& plan) noexcept {
  (void)raw::execveat(plan.init, plan.argv, plan.envp);
  fail(plan, ChildStep::Exec);
}

// The child of the child shares its memory and its stack, and the child waits until it has executed
// the program or failed.
[[noreturn]] void execute_orphaned(ChildPlan& plan) noexcept {
  // NOLINTNEXTLINE(bugprone-unsafe-functions, clang-analyzer-security.insecureAPI.vfork): see above
  const pid_t pid = ::vfork();
  if (pid < 0) fail(plan, ChildStep::Orphan);
  if (pid == 0) execute(plan);  // NOLINT(clang-analyzer-unix.Vfork)
  ::_exit(plan.failed == ChildStep::None ? 0 : 127);
}

[[noreturn]] void exec_init(ChildPlan& plan) noexcept {
  for (int standard = 0; standard <= 2; ++standard) place_descriptor(plan, plan.null, standard);
  place_descriptor(plan, plan.control, wire::kFdControl);
  place_descriptor(plan, plan.stream, wire::kFdStream);
  static_assert(wire::kFdCarried == wire::kFdCgroup);
  place_descriptor(plan, plan.bare ? plan.carried : plan.group, wire::kFdCgroup);
  place_descriptor(plan, plan.bare ? -1 : plan.oom, wire::kFdOom);
  place_descriptor(plan, plan.bare ? -1 : plan.base, wire::kFdBase);
  if (raw::close_range(wire::kFdBase + 1, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
    fail(plan, ChildStep::Descriptors);
  execute(plan);
}

}  // namespace

void child_main(void* argument) noexcept {
  ChildPlan& plan = *static_cast<ChildPlan*>(argument);
  join(plan);
  build_root(plan);
  enter_namespaces(plan);
  drop_privileges(plan);
  if (plan.descriptors == nullptr) exec_init(plan);
  place_handed(plan);
  if (plan.orphaned) execute_orphaned(plan);
  execute(plan);
}

const char* to_string(ChildStep step) noexcept {
  switch (step) {
    case ChildStep::None:
      return "nothing";
    case ChildStep::CloseDescriptors:
      return "close the launcher's descriptors";
    case ChildStep::JoinGroup:
      return "join a control group";
    case ChildStep::EnterNetwork:
      return "enter the network namespace";
    case ChildStep::EnterIpc:
      return "enter the IPC namespace";
    case ChildStep::EnterMounts:
      return "enter the mount namespace";
    case ChildStep::PrivateMounts:
      return "make all mounts private";
    case ChildStep::AttachRoot:
      return "attach the root";
    case ChildStep::MountProc:
      return "mount /proc";
    case ChildStep::MaskProc:
      return "mask a file of /proc";
    case ChildStep::AttachMount:
      return "attach a mount";
    case ChildStep::SwitchRoot:
      return "switch to the new root";
    case ChildStep::Hostname:
      return "set the host name";
    case ChildStep::CgroupNamespace:
      return "make a cgroup namespace";
    case ChildStep::EnterUserNamespace:
      return "enter the user namespace";
    case ChildStep::MountNamespace:
      return "make the locked mount namespace";
    case ChildStep::Groups:
      return "drop groups";
    case ChildStep::BoundingSet:
      return "cut the bounding set";
    case ChildStep::Ids:
      return "take init's ids";
    case ChildStep::Capabilities:
      return "drop capabilities";
    case ChildStep::Keyring:
      return "join a new session keyring";
    case ChildStep::NoNewPrivileges:
      return "set no_new_privs";
    case ChildStep::Session:
      return "start a session";
    case ChildStep::Descriptors:
      return "place init's descriptors";
    case ChildStep::Orphan:
      return "start a process of its own";
    case ChildStep::Exec:
      return "start init";
  }
  return "nothing";
}

}  // namespace caisson::engine::native
