// sys/raw.h — kernel calls that glibc 2.36 does not wrap, or wraps with locks. Each returns -1 and
// sets errno, or the call's value. No allocation, no lock: fit for the child zone, between clone
// and execve.
#pragma once

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>

namespace caisson::sys::raw {

inline int open_tree(int dir, const char* path, unsigned flags) noexcept {
  return static_cast<int>(::syscall(SYS_open_tree, dir, path, flags));
}

inline int move_mount(int from_dir, const char* from, int to_dir, const char* to,
                      unsigned flags) noexcept {
  return static_cast<int>(::syscall(SYS_move_mount, from_dir, from, to_dir, to, flags));
}

// Attaches a detached mount onto an open directory or file.
inline int attach_mount(int mount, int target) noexcept {
  return move_mount(mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

inline int fsopen(const char* type) noexcept {
  return static_cast<int>(::syscall(SYS_fsopen, type, FSOPEN_CLOEXEC));
}

inline int fspick(int dir, const char* path, unsigned flags) noexcept {
  return static_cast<int>(::syscall(SYS_fspick, dir, path, flags));
}

inline int fsconfig(int context, unsigned command, const char* key, const void* value,
                    int aux) noexcept {
  return static_cast<int>(::syscall(SYS_fsconfig, context, command, key, value, aux));
}

inline int fsmount(int context, unsigned attributes) noexcept {
  return static_cast<int>(::syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, attributes));
}

inline int mount_setattr(int dir, const char* path, unsigned flags,
                         const mount_attr& attributes) noexcept {
  return static_cast<int>(
      ::syscall(SYS_mount_setattr, dir, path, flags, &attributes, sizeof(attributes)));
}

inline int openat2(int dir, const char* path, std::uint64_t flags, std::uint64_t resolve) noexcept {
  open_how how{};
  how.flags = flags;
  how.resolve = resolve;
  return static_cast<int>(::syscall(SYS_openat2, dir, path, &how, sizeof(how)));
}

inline int pivot_root(const char* new_root, const char* put_old) noexcept {
  return static_cast<int>(::syscall(SYS_pivot_root, new_root, put_old));
}

inline int close_range(unsigned first, unsigned last, unsigned flags) noexcept {
  return static_cast<int>(::syscall(SYS_close_range, first, last, flags));
}

inline int execveat(int fd, char* const* argv, char* const* envp) noexcept {
  return static_cast<int>(::syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH));
}

inline int pidfd_open(pid_t pid) noexcept {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

inline int pidfd_send_signal(int pidfd, int signal) noexcept {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}

// A session keyring of its own, so that the guest holds none of the caller's keys.
inline long join_session_keyring() noexcept {
  constexpr int kJoinSessionKeyring = 1;
  return ::syscall(SYS_keyctl, kJoinSessionKeyring, nullptr);
}

inline int capset(std::uint64_t effective, std::uint64_t permitted,
                  std::uint64_t inheritable) noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  for (unsigned i = 0; i < 2; ++i) {
    data[i].effective = static_cast<std::uint32_t>(effective >> (32U * i));
    data[i].permitted = static_cast<std::uint32_t>(permitted >> (32U * i));
    data[i].inheritable = static_cast<std::uint32_t>(inheritable >> (32U * i));
  }
  return static_cast<int>(::syscall(SYS_capset, &header, data));
}

inline int capget(std::uint64_t& effective, std::uint64_t& permitted) noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  const int done = static_cast<int>(::syscall(SYS_capget, &header, data));
  effective = (static_cast<std::uint64_t>(data[1].effective) << 32U) | data[0].effective;
  permitted = (static_cast<std::uint64_t>(data[1].permitted) << 32U) | data[0].permitted;
  return done;
}

// The id calls of glibc tell every thread; these change the calling thread alone, which is what a
// clone needs.
inline int setresuid(uid_t id) noexcept {
  return static_cast<int>(::syscall(SYS_setresuid, id, id, id));
}
inline int setresgid(gid_t id) noexcept {
  return static_cast<int>(::syscall(SYS_setresgid, id, id, id));
}
inline int drop_groups() noexcept { return static_cast<int>(::syscall(SYS_setgroups, 0, nullptr)); }
inline int set_fs_uid(uid_t id) noexcept { return static_cast<int>(::syscall(SYS_setfsuid, id)); }
inline int set_fs_gid(gid_t id) noexcept { return static_cast<int>(::syscall(SYS_setfsgid, id)); }

// clone3 with a stack of the child's own, so that CLONE_VM is possible: the child runs
// entry(argument), which must not return. glibc's clone() cannot say CLONE_INTO_CGROUP, and its
// clone3 wrapper is not public.
long clone3_on_stack(clone_args& arguments, void (*entry)(void*), void* argument) noexcept;

}  // namespace caisson::sys::raw
