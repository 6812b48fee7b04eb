// The list for x86-64. The numbers are written out because the list must not change with the age of
// the kernel headers on the machine that builds it; a test compares every one of them with
// libseccomp's. The groups say who needs a call, or why nobody gets it. A call that no group wants
// is left out and answers ENOSYS.
#include "engine/seccomp/table.h"

#include <algorithm>
#include <array>
#include <cstddef>

#if !defined(__x86_64__) || defined(__ILP32__)
#error \
    "engine/seccomp has a list of system calls for x86-64 only: add a table for this architecture"
#endif

namespace caisson::engine::seccomp {
namespace {

using enum Verdict;

constexpr auto kFilesAndMemory = std::to_array<Rule>({
    // Bytes in and out of descriptors: every program.
    {0, Allow, "read"},
    {1, Allow, "write"},
    {3, Allow, "close"},
    {8, Allow, "lseek"},
    {17, Allow, "pread64"},
    {18, Allow, "pwrite64"},
    {19, Allow, "readv"},
    {20, Allow, "writev"},
    {295, Allow, "preadv"},
    {296, Allow, "pwritev"},
    {327, Allow, "preadv2"},
    {328, Allow, "pwritev2"},
    {32, Allow, "dup"},
    {33, Allow, "dup2"},
    {292, Allow, "dup3"},
    {22, Allow, "pipe"},
    {293, Allow, "pipe2"},
    {72, Allow, "fcntl"},
    {73, Allow, "flock"},
    {436, Allow, "close_range"},
    // Opening and looking: every libc, in its older and newer forms. musl, Go and static binaries
    // still use the old.
    {2, Allow, "open"},
    {257, Allow, "openat"},
    {437, Allow, "openat2"},
    {85, Allow, "creat"},
    {4, Allow, "stat"},
    {5, Allow, "fstat"},
    {6, Allow, "lstat"},
    {262, Allow, "newfstatat"},
    {332, Allow, "statx"},
    {21, Allow, "access"},
    {269, Allow, "faccessat"},
    {439, Allow, "faccessat2"},
    {78, Allow, "getdents"},
    {217, Allow, "getdents64"},
    {89, Allow, "readlink"},
    {267, Allow, "readlinkat"},
    {137, Allow, "statfs"},
    {138, Allow, "fstatfs"},
    {79, Allow, "getcwd"},
    {80, Allow, "chdir"},
    {81, Allow, "fchdir"},
    {95, Allow, "umask"},
    // Changing the tree: shells, compilers, git, package managers. mknod makes fifos and sockets; a
    // device node is
    // refused by the user namespace and useless on our nodev mounts.
    {82, Allow, "rename"},
    {264, Allow, "renameat"},
    {316, Allow, "renameat2"},
    {83, Allow, "mkdir"},
    {258, Allow, "mkdirat"},
    {84, Allow, "rmdir"},
    {86, Allow, "link"},
    {265, Allow, "linkat"},
    {87, Allow, "unlink"},
    {263, Allow, "unlinkat"},
    {88, Allow, "symlink"},
    {266, Allow, "symlinkat"},
    {133, Allow, "mknod"},
    {259, Allow, "mknodat"},
    {76, Allow, "truncate"},
    {77, Allow, "ftruncate"},
    {285, Allow, "fallocate"},
    {90, Allow, "chmod"},
    {91, Allow, "fchmod"},
    {268, Allow, "fchmodat"},
    {452, Allow, "fchmodat2"},
    {92, ChangeOwner, "chown"},
    {93, ChangeOwner, "fchown"},
    {94, ChangeOwner, "lchown"},
    {260, ChangeOwnerAt, "fchownat"},
    {132, Allow, "utime"},
    {235, Allow, "utimes"},
    {261, Allow, "futimesat"},
    {280, Allow, "utimensat"},
    // Extended attributes: tar, rsync, cp -a, setfacl. The user namespace confines trusted.* and
    // security.*.
    {188, Allow, "setxattr"},
    {189, Allow, "lsetxattr"},
    {190, Allow, "fsetxattr"},
    {191, Allow, "getxattr"},
    {192, Allow, "lgetxattr"},
    {193, Allow, "fgetxattr"},
    {194, Allow, "listxattr"},
    {195, Allow, "llistxattr"},
    {196, Allow, "flistxattr"},
    {197, Allow, "removexattr"},
    {198, Allow, "lremovexattr"},
    {199, Allow, "fremovexattr"},
    {463, Allow, "setxattrat"},
    {464, Allow, "getxattrat"},
    {465, Allow, "listxattrat"},
    {466, Allow, "removexattrat"},
    // Copying inside the kernel: cp, cat, Go's io.Copy, Rust's std::fs::copy, web servers.
    {40, Allow, "sendfile"},
    {326, Allow, "copy_file_range"},
    {275, Allow, "splice"},
    {276, Allow, "tee"},
    // Durability and read-ahead: databases, dpkg, git.
    {74, Allow, "fsync"},
    {75, Allow, "fdatasync"},
    {162, Allow, "sync"},
    {306, Allow, "syncfs"},
    {277, Allow, "sync_file_range"},
    {187, Allow, "readahead"},
    {221, Allow, "fadvise64"},
    // Asynchronous file I/O of the old kind: MySQL, nginx, fio. It has no queue shared with the
    // kernel.
    {206, Allow, "io_setup"},
    {207, Allow, "io_destroy"},
    {208, Allow, "io_getevents"},
    {209, Allow, "io_submit"},
    {210, Allow, "io_cancel"},
    {333, Allow, "io_pgetevents"},
    // File watchers: test runners, bundlers, editors.
    {253, Allow, "inotify_init"},
    {294, Allow, "inotify_init1"},
    {254, Allow, "inotify_add_watch"},
    {255, Allow, "inotify_rm_watch"},
    // Memory: every allocator, loader and garbage collector. Locking is bounded by RLIMIT_MEMLOCK.
    {9, Allow, "mmap"},
    {10, Allow, "mprotect"},
    {11, Allow, "munmap"},
    {12, Allow, "brk"},
    {25, Allow, "mremap"},
    {26, Allow, "msync"},
    {27, Allow, "mincore"},
    {28, Allow, "madvise"},
    {149, Allow, "mlock"},
    {150, Allow, "munlock"},
    {151, Allow, "mlockall"},
    {152, Allow, "munlockall"},
    {325, Allow, "mlock2"},
    {319, Allow, "memfd_create"},
    {462, Allow, "mseal"},
    // Reading the NUMA policy: Java and OpenMP ask at start. Setting one is refused below.
    {239, Allow, "get_mempolicy"},
    // Protection keys and shadow stacks: V8 and Chromium, glibc with CET.
    {329, Allow, "pkey_mprotect"},
    {330, Allow, "pkey_alloc"},
    {331, Allow, "pkey_free"},
    {453, Allow, "map_shadow_stack"},
});

constexpr auto kProcessesAndTime = std::to_array<Rule>({
    // Processes and threads: shells, every runtime with workers.
    {56, Clone, "clone"},
    {57, Spawn, "fork"},
    {58, Spawn, "vfork"},
    {59, Allow, "execve"},
    {322, Allow, "execveat"},
    {60, Allow, "exit"},
    {231, Allow, "exit_group"},
    {61, Allow, "wait4"},
    {247, Allow, "waitid"},
    {434, Allow, "pidfd_open"},
    {424, Allow, "pidfd_send_signal"},
    {218, Allow, "set_tid_address"},
    {273, Allow, "set_robust_list"},
    {274, Allow, "get_robust_list"},
    {334, Allow, "rseq"},
    {324, Allow, "membarrier"},
    {158, Allow, "arch_prctl"},
    {157, Prctl, "prctl"},
    // uname -m games of build scripts (linux32) and, for debuggers, a layout without randomness.
    {135, Personality, "personality"},
    // Locks between threads: every libc, and the newer forms for Wine and future ones.
    {202, Allow, "futex"},
    {449, Allow, "futex_waitv"},
    {454, Allow, "futex_wake"},
    {455, Allow, "futex_wait"},
    {456, Allow, "futex_requeue"},
    // Signals.
    {13, Allow, "rt_sigaction"},
    {14, Allow, "rt_sigprocmask"},
    {15, Allow, "rt_sigreturn"},
    {127, Allow, "rt_sigpending"},
    {128, Allow, "rt_sigtimedwait"},
    {129, Allow, "rt_sigqueueinfo"},
    {130, Allow, "rt_sigsuspend"},
    {297, Allow, "rt_tgsigqueueinfo"},
    {131, Allow, "sigaltstack"},
    {34, Allow, "pause"},
    {62, Allow, "kill"},
    {200, Allow, "tkill"},
    {234, Allow, "tgkill"},
    {282, Allow, "signalfd"},
    {289, Allow, "signalfd4"},
    {219, Allow, "restart_syscall"},
    // Who am I. Changing ids is harmless: no_new_privs, only ids of the sandbox's own slot, and
    // of those never init's.
    {39, Allow, "getpid"},
    {110, Allow, "getppid"},
    {186, Allow, "gettid"},
    {102, Allow, "getuid"},
    {104, Allow, "getgid"},
    {107, Allow, "geteuid"},
    {108, Allow, "getegid"},
    {115, Allow, "getgroups"},
    {118, Allow, "getresuid"},
    {120, Allow, "getresgid"},
    {105, BecomeOne, "setuid"},
    {106, BecomeOne, "setgid"},
    {113, BecomeTwo, "setreuid"},
    {114, BecomeTwo, "setregid"},
    {116, Allow, "setgroups"},
    {117, BecomeThree, "setresuid"},
    {119, BecomeThree, "setresgid"},
    {122, BecomeOne, "setfsuid"},
    {123, BecomeOne, "setfsgid"},
    {125, Allow, "capget"},
    {126, Allow, "capset"},
    // Sessions and job control: shells.
    {109, Allow, "setpgid"},
    {111, Allow, "getpgrp"},
    {121, Allow, "getpgid"},
    {112, Allow, "setsid"},
    {124, Allow, "getsid"},
    // Limits and use of resources: runtimes size themselves by them; raising needs a capability.
    {97, Allow, "getrlimit"},
    {160, Allow, "setrlimit"},
    {302, Allow, "prlimit64"},
    {98, Allow, "getrusage"},
    {99, Allow, "sysinfo"},
    {100, Allow, "times"},
    {63, Allow, "uname"},
    // Scheduling: Java, Go, OpenMP and nice(1). Real-time classes fail for want of RLIMIT_RTPRIO.
    {24, Allow, "sched_yield"},
    {140, Allow, "getpriority"},
    {141, Allow, "setpriority"},
    {142, Allow, "sched_setparam"},
    {143, Allow, "sched_getparam"},
    {144, Allow, "sched_setscheduler"},
    {145, Allow, "sched_getscheduler"},
    {146, Allow, "sched_get_priority_max"},
    {147, Allow, "sched_get_priority_min"},
    {148, Allow, "sched_rr_get_interval"},
    {203, Allow, "sched_setaffinity"},
    {204, Allow, "sched_getaffinity"},
    {314, Allow, "sched_setattr"},
    {315, Allow, "sched_getattr"},
    {251, Allow, "ioprio_set"},
    {252, Allow, "ioprio_get"},
    {309, Allow, "getcpu"},
    // Clocks and timers.
    {96, Allow, "gettimeofday"},
    {201, Allow, "time"},
    {228, Allow, "clock_gettime"},
    {229, Allow, "clock_getres"},
    {230, Allow, "clock_nanosleep"},
    {35, Allow, "nanosleep"},
    {36, Allow, "getitimer"},
    {37, Allow, "alarm"},
    {38, Allow, "setitimer"},
    {222, Allow, "timer_create"},
    {223, Allow, "timer_settime"},
    {224, Allow, "timer_gettime"},
    {225, Allow, "timer_getoverrun"},
    {226, Allow, "timer_delete"},
    {283, Allow, "timerfd_create"},
    {286, Allow, "timerfd_settime"},
    {287, Allow, "timerfd_gettime"},
    // Randomness: every runtime at start.
    {318, Allow, "getrandom"},
    // A program that confines itself further: Chromium, OpenSSH, systemd tools. Ours always wins:
    // the kernel takes
    // the strictest answer of all filters.
    {317, Allow, "seccomp"},
    {444, Allow, "landlock_create_ruleset"},
    {445, Allow, "landlock_add_rule"},
    {446, Allow, "landlock_restrict_self"},
});

constexpr auto kWaitingAndTalking = std::to_array<Rule>({
    // Waiting for many things at once: every event loop.
    {7, Allow, "poll"},
    {271, Allow, "ppoll"},
    {23, Allow, "select"},
    {270, Allow, "pselect6"},
    {213, Allow, "epoll_create"},
    {291, Allow, "epoll_create1"},
    {233, Allow, "epoll_ctl"},
    {232, Allow, "epoll_wait"},
    {281, Allow, "epoll_pwait"},
    {441, Allow, "epoll_pwait2"},
    {284, Allow, "eventfd"},
    {290, Allow, "eventfd2"},
    // Sockets. The family decides which part of the kernel is behind them, so only `socket` needs a
    // check.
    {41, Socket, "socket"},
    {53, SocketPair, "socketpair"},
    {42, Allow, "connect"},
    {43, Allow, "accept"},
    {288, Allow, "accept4"},
    {49, Allow, "bind"},
    {50, Allow, "listen"},
    {44, Allow, "sendto"},
    {45, Allow, "recvfrom"},
    {46, Allow, "sendmsg"},
    {47, Allow, "recvmsg"},
    {299, Allow, "recvmmsg"},
    {307, Allow, "sendmmsg"},
    {48, Allow, "shutdown"},
    {51, Allow, "getsockname"},
    {52, Allow, "getpeername"},
    {54, Allow, "setsockopt"},
    {55, Allow, "getsockopt"},
    // Terminals, file flags, sizes: every interactive program.
    {16, Ioctl, "ioctl"},
    // System V and POSIX IPC, inside the sandbox's own ipc namespace: PostgreSQL, Python's
    // multiprocessing, MPI.
    {29, Allow, "shmget"},
    {30, Allow, "shmat"},
    {31, Allow, "shmctl"},
    {67, Allow, "shmdt"},
    {64, Allow, "semget"},
    {65, Allow, "semop"},
    {66, Allow, "semctl"},
    {220, Allow, "semtimedop"},
    {68, Allow, "msgget"},
    {69, Allow, "msgsnd"},
    {70, Allow, "msgrcv"},
    {71, Allow, "msgctl"},
    {240, Allow, "mq_open"},
    {241, Allow, "mq_unlink"},
    {242, Allow, "mq_timedsend"},
    {243, Allow, "mq_timedreceive"},
    {244, Allow, "mq_notify"},
    {245, Allow, "mq_getsetattr"},
});

constexpr auto kRefused = std::to_array<Rule>({
    // Namespaces and roots: a nested user namespace opens most of the kernel to an unprivileged
    // program (P10), and a
    // second root is the classic way around a first one.
    {272, Refuse, "unshare"},
    {308, Refuse, "setns"},
    {161, Refuse, "chroot"},
    {155, Refuse, "pivot_root"},
    // Mounts, old interface and new: the mount table is frozen (P2).
    {165, Refuse, "mount"},
    {166, Refuse, "umount2"},
    {428, Refuse, "open_tree"},
    {429, Refuse, "move_mount"},
    {430, Refuse, "fsopen"},
    {431, Refuse, "fsconfig"},
    {432, Refuse, "fsmount"},
    {433, Refuse, "fspick"},
    {442, Refuse, "mount_setattr"},
    {467, Refuse, "open_tree_attr"},
    // Files by handle walk past every path check; a name for a handle has no other use.
    {303, Refuse, "name_to_handle_at"},
    {304, Refuse, "open_by_handle_at"},
    // Large machines inside the kernel with a history of exploits.
    {321, Refuse, "bpf"},
    {298, Refuse, "perf_event_open"},
    {323, Refuse, "userfaultfd"},
    {425, Refuse, "io_uring_setup"},
    {426, Refuse, "io_uring_enter"},
    {427, Refuse, "io_uring_register"},
    {300, Refuse, "fanotify_init"},
    {301, Refuse, "fanotify_mark"},
    // Lends pages of the caller to a pipe: the tool of several page cache exploits, and no runtime
    // needs it.
    {278, Refuse, "vmsplice"},
    // Keys live outside of all namespaces but the user's (P15).
    {248, Refuse, "add_key"},
    {249, Refuse, "request_key"},
    {250, Refuse, "keyctl"},
    // Other processes' memory and descriptors. Debuggers get the first three by profile; init is
    // safe either way.
    {101, DebugOnly, "ptrace"},
    {310, DebugOnly, "process_vm_readv"},
    {311, DebugOnly, "process_vm_writev"},
    {438, Refuse, "pidfd_getfd"},
    {312, Refuse, "kcmp"},
    {440, Refuse, "process_madvise"},
    {448, Refuse, "process_mrelease"},
    // Placement of pages: a lever on neighbours, and on the kernel's migration code.
    {237, Refuse, "mbind"},
    {238, Refuse, "set_mempolicy"},
    {450, Refuse, "set_mempolicy_home_node"},
    {256, Refuse, "migrate_pages"},
    {279, Refuse, "move_pages"},
    // Memory hidden from the kernel itself splits its large pages and so slows down everybody.
    {447, Refuse, "memfd_secret"},
    // The machine: kernel code, power, swap, accounting, quotas, names, clocks, log, consoles,
    // ports.
    {175, Refuse, "init_module"},
    {313, Refuse, "finit_module"},
    {176, Refuse, "delete_module"},
    {246, Refuse, "kexec_load"},
    {320, Refuse, "kexec_file_load"},
    {169, Refuse, "reboot"},
    {167, Refuse, "swapon"},
    {168, Refuse, "swapoff"},
    {163, Refuse, "acct"},
    {179, Refuse, "quotactl"},
    {443, Refuse, "quotactl_fd"},
    {170, Refuse, "sethostname"},
    {171, Refuse, "setdomainname"},
    {164, Refuse, "settimeofday"},
    {227, Refuse, "clock_settime"},
    {159, Refuse, "adjtimex"},
    {305, Refuse, "clock_adjtime"},
    {103, Refuse, "syslog"},
    {153, Refuse, "vhangup"},
    {172, Refuse, "iopl"},
    {173, Refuse, "ioperm"},
    // Segments for 16-bit programs: nobody but DOS emulators, and a rich source of kernel bugs.
    {154, Refuse, "modify_ldt"},
    // Obsolete, though still answered by some kernels.
    {134, Refuse, "uselib"},
    {136, Refuse, "ustat"},
    {139, Refuse, "sysfs"},
    {216, Refuse, "remap_file_pages"},
    {212, Refuse, "lookup_dcookie"},
    {156, Refuse, "_sysctl"},
    // A process may not give itself another security label.
    {460, Refuse, "lsm_set_self_attr"},
});

constexpr auto kAbsent = std::to_array<Rule>({
    // Its flags are behind a pointer, where no filter can look; libc falls back to clone.
    {435, Absent, "clone3"},
    // Tells which pages of a shared layer a neighbour has read lately; callers live without it.
    {451, Absent, "cachestat"},
    // The mount table, labels and file flags again: /proc/self/mountinfo, /proc/self/attr and ioctl
    // say the same.
    {457, Absent, "statmount"},
    {458, Absent, "listmount"},
    {459, Absent, "lsm_get_self_attr"},
    {461, Absent, "lsm_list_modules"},
    {468, Absent, "file_getattr"},
    {469, Absent, "file_setattr"},
    // Entered only from the kernel's own trampolines, which the kernel lets pass before any filter.
    {335, Absent, "uretprobe"},
    {336, Absent, "uprobe"},
    // Numbers the kernel itself has no code for on x86-64 any more.
    {174, Absent, "create_module"},
    {177, Absent, "get_kernel_syms"},
    {178, Absent, "query_module"},
    {180, Absent, "nfsservctl"},
    {181, Absent, "getpmsg"},
    {182, Absent, "putpmsg"},
    {183, Absent, "afs_syscall"},
    {184, Absent, "tuxcall"},
    {185, Absent, "security"},
    {205, Absent, "set_thread_area"},
    {211, Absent, "get_thread_area"},
    {214, Absent, "epoll_ctl_old"},
    {215, Absent, "epoll_wait_old"},
    {236, Absent, "vserver"},
});

template <std::size_t... N>
consteval auto merge(const std::array<Rule, N>&... groups) {
  std::array<Rule, (N + ...)> all{};
  auto at = all.begin();
  ((at = std::ranges::copy(groups, at).out), ...);
  std::ranges::sort(all, {}, &Rule::number);
  return all;
}

constexpr auto kTable =
    merge(kFilesAndMemory, kProcessesAndTime, kWaitingAndTalking, kRefused, kAbsent);

static_assert(std::ranges::adjacent_find(kTable, {}, &Rule::number) == kTable.end(),
              "a number appears twice");

}  // namespace

std::span<const Rule> table() noexcept { return kTable; }

}  // namespace caisson::engine::seccomp
