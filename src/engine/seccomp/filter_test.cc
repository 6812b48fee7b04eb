// The compiled program against the table it came from: every number, every profile, arguments at
// their edges.
#include "engine/seccomp/filter.h"

#include <asm/ioctls.h>
#include <gtest/gtest.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <sys/personality.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/seccomp/interpreter_test.h"
#include "engine/seccomp/table.h"

namespace caisson::engine::seccomp {
namespace {

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t kEperm = SECCOMP_RET_ERRNO | EPERM;
constexpr std::uint32_t kEnosys = SECCOMP_RET_ERRNO | ENOSYS;
constexpr std::uint32_t kKill = SECCOMP_RET_KILL_PROCESS;
constexpr std::uint64_t kHighBits = 0xdead'beef'0000'0000;

constexpr auto kProfiles = std::to_array(
    {Profile::Default, Profile::Debug, Profile::NoSpawn, Profile::Debug | Profile::NoSpawn});

std::uint32_t number_of(std::string_view name) {
  const auto found = std::ranges::find(table(), name, &Rule::name);
  EXPECT_NE(found, table().end()) << name;
  return found->number;
}

std::uint32_t ask(Profile profile, const Call& call) {
  const Filter filter = compile(profile);
  const auto answer = interpret(filter, call);
  EXPECT_TRUE(answer) << "the program left its bounds";
  return answer ? answer->action : 0;
}

std::uint32_t ask(Profile profile, std::string_view name,
                  std::array<std::uint64_t, 6> arguments = {}) {
  return ask(profile, Call{.number = number_of(name), .arguments = arguments});
}

TEST(SeccompFilter, RefusesWhatTheThreatModelNames) {
  for (const std::string_view name : {"mount",
                                      "umount2",
                                      "open_tree",
                                      "move_mount",
                                      "fsopen",
                                      "fsconfig",
                                      "fsmount",
                                      "fspick",
                                      "mount_setattr",
                                      "open_tree_attr",
                                      "pivot_root",
                                      "chroot",
                                      "unshare",
                                      "setns",
                                      "bpf",
                                      "perf_event_open",
                                      "userfaultfd",
                                      "io_uring_setup",
                                      "io_uring_enter",
                                      "io_uring_register",
                                      "keyctl",
                                      "add_key",
                                      "request_key",
                                      "kexec_load",
                                      "kexec_file_load",
                                      "init_module",
                                      "finit_module",
                                      "delete_module",
                                      "open_by_handle_at",
                                      "pidfd_getfd",
                                      "kcmp",
                                      "process_madvise",
                                      "quotactl",
                                      "quotactl_fd",
                                      "swapon",
                                      "swapoff",
                                      "reboot",
                                      "acct",
                                      "settimeofday",
                                      "clock_settime",
                                      "sethostname",
                                      "setdomainname",
                                      "syslog",
                                      "iopl",
                                      "ioperm",
                                      "modify_ldt",
                                      "fanotify_init",
                                      "lookup_dcookie",
                                      "mbind",
                                      "set_mempolicy",
                                      "set_mempolicy_home_node",
                                      "migrate_pages",
                                      "move_pages",
                                      "ptrace",
                                      "process_vm_readv",
                                      "process_vm_writev"}) {
    EXPECT_EQ(ask(Profile::Default, name), kEperm) << name;
  }
}

TEST(SeccompFilter, Clone3IsAbsentSoThatLibcFallsBack) {
  for (const Profile profile : kProfiles) EXPECT_EQ(ask(profile, "clone3"), kEnosys);
}

TEST(SeccompFilter, EveryNumberOfEveryProfileFollowsTheTable) {
  const auto by_argument = [](Verdict v) { return v >= Verdict::Clone; };
  for (const Profile profile : kProfiles) {
    const Filter filter = compile(profile);
    std::map<std::uint32_t, Verdict> verdicts;
    for (const Rule& rule : table()) verdicts[rule.number] = rule.verdict;
    for (std::uint32_t number = 0; number <= 600; ++number) {
      const auto answer = interpret(filter, Call{.number = number});
      ASSERT_TRUE(answer) << number;
      const auto known = verdicts.find(number);
      std::uint32_t expected = kEnosys;
      if (known != verdicts.end()) {
        if (by_argument(known->second)) continue;
        if (known->second == Verdict::Allow) expected = kAllow;
        if (known->second == Verdict::Refuse) expected = kEperm;
        if (known->second == Verdict::DebugOnly)
          expected = has(profile, Profile::Debug) ? kAllow : kEperm;
        if (known->second == Verdict::Spawn)
          expected = has(profile, Profile::NoSpawn) ? kEperm : kAllow;
      }
      EXPECT_EQ(answer->action, expected) << number;
    }
  }
}

TEST(SeccompFilter, ForeignArchitecturesAndX32AreKilled) {
  for (const std::uint32_t number : {0U, 59U, 102U, 600U}) {
    EXPECT_EQ(ask(Profile::Default, Call{.number = number, .architecture = AUDIT_ARCH_I386}),
              kKill);
    EXPECT_EQ(ask(Profile::Default, Call{.number = number, .architecture = AUDIT_ARCH_AARCH64}),
              kKill);
    EXPECT_EQ(ask(Profile::Default, Call{.number = number, .architecture = 0}), kKill);
    EXPECT_EQ(ask(Profile::Default, Call{.number = number | 0x4000'0000U}), kKill);
    EXPECT_EQ(ask(Profile::Default, Call{.number = number | 0x8000'0000U}), kKill);
  }
  EXPECT_EQ(ask(Profile::Default, Call{.number = 0x3fff'ffff}), kEnosys);
  EXPECT_EQ(ask(Profile::Default, Call{.number = 0x4000'0000}), kKill);
  EXPECT_EQ(ask(Profile::Default, Call{.number = 0xffff'fffe}), kKill);
  EXPECT_EQ(ask(Profile::Default, Call{.number = 0xffff'ffff}),
            kEnosys);  // a call skipped by a tracer
}

TEST(SeccompFilter, CloneMakesNoNamespaceInAnyProfile) {
  for (const Profile profile : kProfiles) {
    for (const std::uint64_t flag :
         std::to_array<std::uint64_t>({CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                       CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET})) {
      EXPECT_EQ(ask(profile, "clone", {flag}), kEperm) << flag;
      EXPECT_EQ(ask(profile, "clone", {flag | CLONE_THREAD | kHighBits}), kEperm) << flag;
    }
  }
}

TEST(SeccompFilter, NoSpawnLeavesThreads) {
  constexpr std::uint64_t kPthread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
                                     CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                                     CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  constexpr std::uint64_t kFork = 17 | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  EXPECT_EQ(ask(Profile::Default, "clone", {kPthread}), kAllow);
  EXPECT_EQ(ask(Profile::Default, "clone", {kFork}), kAllow);
  EXPECT_EQ(ask(Profile::NoSpawn, "clone", {kPthread}), kAllow);
  EXPECT_EQ(ask(Profile::NoSpawn, "clone", {kFork}), kEperm);
  EXPECT_EQ(ask(Profile::NoSpawn, "clone", {kFork | (kPthread << 32U)}), kEperm);
  EXPECT_EQ(ask(Profile::NoSpawn, "clone", {CLONE_VM | CLONE_VFORK | 17}), kEperm);
  EXPECT_EQ(ask(Profile::NoSpawn, "execve"), kAllow);
}

TEST(SeccompFilter, SocketsAreUnixInternetAndRoutes) {
  const auto socket = [](std::uint64_t family, std::uint64_t type, std::uint64_t protocol) {
    const std::uint32_t plain = ask(Profile::Default, "socket", {family, type, protocol});
    const std::uint32_t high = ask(Profile::Default, "socket",
                                   {family | kHighBits, type | kHighBits, protocol | kHighBits});
    EXPECT_EQ(plain, high) << "the high half is not part of an int";
    return plain;
  };
  for (std::uint64_t family = 0; family < 64; ++family) {
    const bool wanted =
        family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
    EXPECT_EQ(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), wanted ? kAllow : kEperm) << family;
  }
  EXPECT_EQ(socket(0xffff'ffff, SOCK_STREAM, 0), kEperm);
  for (const std::uint64_t family : std::to_array<std::uint64_t>({AF_INET, AF_INET6})) {
    for (std::uint64_t type = 0; type < 16; ++type) {
      const bool wanted = type == SOCK_STREAM || type == SOCK_DGRAM;
      EXPECT_EQ(socket(family, type | SOCK_NONBLOCK, 0), wanted ? kAllow : kEperm) << type;
    }
    for (std::uint64_t protocol = 0; protocol < 300; ++protocol) {
      const bool wanted = protocol == 0 || protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
      EXPECT_EQ(socket(family, SOCK_DGRAM, protocol), wanted ? kAllow : kEperm) << protocol;
    }
  }
  for (std::uint64_t protocol = 1; protocol < 32; ++protocol) {
    EXPECT_EQ(socket(AF_NETLINK, SOCK_RAW, protocol), kEperm) << protocol;
  }
  EXPECT_EQ(socket(AF_UNIX, SOCK_SEQPACKET, 0), kAllow);
  EXPECT_EQ(ask(Profile::Default, "socketpair", {AF_UNIX, SOCK_STREAM}), kAllow);
  EXPECT_EQ(ask(Profile::Default, "socketpair", {AF_UNIX | kHighBits, SOCK_STREAM}), kAllow);
  EXPECT_EQ(ask(Profile::Default, "socketpair", {AF_TIPC, SOCK_STREAM}), kEperm);
}

TEST(SeccompFilter, TerminalRequestsAreComparedOnThirtyTwoBits) {
  for (const std::uint64_t request : std::to_array<std::uint64_t>({TIOCSTI, TIOCLINUX, TIOCSETD})) {
    EXPECT_EQ(ask(Profile::Default, "ioctl", {0, request}), kEperm);
    EXPECT_EQ(ask(Profile::Default, "ioctl", {0, request | (1ULL << 32U)}), kEperm);
    EXPECT_EQ(ask(Profile::Default, "ioctl", {0, request | kHighBits}), kEperm);
  }
  for (const std::uint64_t request : std::to_array<std::uint64_t>(
           {TCGETS, TIOCGWINSZ, TIOCSWINSZ, TIOCGPTN, FIONREAD, FIONBIO})) {
    EXPECT_EQ(ask(Profile::Default, "ioctl", {0, request}), kAllow);
  }
}

TEST(SeccompFilter, PersonalityAndPrctlByValue) {
  for (const std::uint64_t value : {0x0ULL, 0x8ULL, 0x20000ULL, 0x20008ULL, 0xffff'ffffULL}) {
    EXPECT_EQ(ask(Profile::Default, "personality", {value}), kAllow) << value;
    EXPECT_EQ(ask(Profile::Default, "personality", {value | kHighBits}), kAllow) << value;
  }
  for (const std::uint64_t value : {0x1ULL, 0x40000ULL, 0x400000ULL, 0x20009ULL, 0xffff'fffeULL}) {
    EXPECT_EQ(ask(Profile::Default, "personality", {value}), kEperm) << value;
  }
  EXPECT_EQ(ask(Profile::Debug, "personality", {ADDR_NO_RANDOMIZE}), kAllow);
  EXPECT_EQ(ask(Profile::Default, "prctl", {PR_SET_MM}), kEperm);
  EXPECT_EQ(ask(Profile::Default, "prctl", {PR_SET_MM | kHighBits}), kEperm);
  EXPECT_EQ(ask(Profile::Default, "prctl", {PR_SET_NAME}), kAllow);
}

TEST(SeccompFilter, IsShortShallowAndAlwaysTheSame) {
  for (const Profile profile : kProfiles) {
    const Filter filter = compile(profile);
    EXPECT_LE(filter.size(), 200U);
    EXPECT_LE(filter.size(), kFilterInstructionsMax);
    std::size_t deepest = 0;
    for (std::uint32_t number = 0; number <= 600; ++number) {
      deepest = std::max(deepest, interpret(filter, Call{.number = number})->steps);
    }
    EXPECT_LE(deepest, 24U);
    EXPECT_EQ(fingerprint(filter), fingerprint(compile(profile)));
    EXPECT_EQ(fingerprint(filter).size(), 16U);
  }
  EXPECT_NE(fingerprint(compile(Profile::Default)), fingerprint(compile(Profile::NoSpawn)));
  EXPECT_EQ(fingerprint({}), "cbf29ce484222325");  // FNV-1a of nothing
}

}  // namespace
}  // namespace caisson::engine::seccomp
