// P10: no nested namespaces, by any of the three calls that could make one, and ordinary programs
// still start.
#include <gtest/gtest.h>
#include <linux/sched.h>

#include <array>
#include <utility>

#include "tests/security/attack.h"
#include "tests/security/under_filter.h"

namespace caisson::security {
namespace {

using engine::seccomp::Profile;

constexpr std::uint64_t kNewTime =
    0x80;  // CLONE_NEWTIME; in clone these bits are the exit signal's
constexpr auto kFlags =
    std::to_array<std::uint64_t>({CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                  CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET});
constexpr auto kProfiles = std::to_array(
    {Profile::Default, Profile::Debug, Profile::NoSpawn, Profile::Debug | Profile::NoSpawn});

// Should a clone succeed after all, the new process must not go on as a second test.
int errno_of_clone(long number, unsigned long a, unsigned long b) {
  const long result = ::syscall(number, a, b, 0, 0, 0);
  if (result == 0) ::_exit(0);
  return result == -1 ? errno : 0;
}

TEST(P10NoNestedNamespaces, UnshareIsRefusedWithEveryFlag) {
  for (const Profile profile : kProfiles) {
    for (const std::uint64_t flag : kFlags) {
      EXPECT_EQ(under_filter(profile, [&] { return errno_of(SYS_unshare, flag); }),
                (Ended{.status = EPERM}));
    }
    EXPECT_EQ(under_filter(profile, [] { return errno_of(SYS_unshare, kNewTime); }),
              (Ended{.status = EPERM}));
    EXPECT_EQ(under_filter(profile, [] { return errno_of(SYS_unshare, CLONE_FILES); }),
              (Ended{.status = EPERM}));
  }
}

TEST(P10NoNestedNamespaces, CloneIsRefusedWithEveryFlag) {
  for (const Profile profile : kProfiles) {
    for (const std::uint64_t flag : kFlags) {
      for (const std::uint64_t high : {0ULL, 1ULL << 32U, 0xffff'ffff'0000'0000ULL}) {
        const auto attempt = [&] { return errno_of_clone(SYS_clone, flag | high | SIGCHLD, 0); };
        EXPECT_EQ(under_filter(profile, attempt), (Ended{.status = EPERM})) << flag;
      }
    }
  }
}

TEST(P10NoNestedNamespaces, Clone3DoesNotExist) {
  for (const Profile profile : kProfiles) {
    for (const std::uint64_t flag : {0ULL, 0x80ULL, 0x1000'0000ULL}) {
      clone_args arguments{};
      arguments.flags = flag;
      arguments.exit_signal = SIGCHLD;
      const auto attempt = [&] {
        return errno_of_clone(SYS_clone3, reinterpret_cast<unsigned long>(&arguments),
                              sizeof(arguments));
      };
      EXPECT_EQ(under_filter(profile, attempt), (Ended{.status = ENOSYS})) << flag;
    }
  }
}

TEST(P10NoNestedNamespaces, SetnsIsRefused) {
  const UniqueFd own(::open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(own);
  const auto attempt = [&] {
    return errno_of(SYS_setns, static_cast<unsigned long>(own.get()), 0);
  };
  for (const Profile profile : kProfiles)
    EXPECT_EQ(under_filter(profile, attempt), (Ended{.status = EPERM}));
}

TEST(P10NoNestedNamespaces, PythonSubprocessesStillStart) {
  const std::string code =
      "import subprocess, threading, sys\n"
      "t = threading.Thread(target=lambda: print('thread', flush=True)); t.start(); t.join()\n"
      "print(subprocess.run(['/bin/sh', '-c', 'echo child | cat'], capture_output=True, "
      "text=True).stdout)\n";
  const ProgramResult run = run_under_filter(Profile::Default, {"/usr/bin/python3", "-c", code});
  EXPECT_EQ(run.ended, (Ended{.status = 0})) << run.output;
  EXPECT_EQ(run.output, "thread\nchild\n\n");
}

TEST(P10NoNestedNamespaces, NoSpawnLeavesThreadsAndRefusesProcesses) {
  const std::string code =
      "import os, subprocess, threading\n"
      "t = threading.Thread(target=lambda: print('thread', flush=True)); t.start(); t.join()\n"
      "for make in (os.fork, lambda: subprocess.run(['/bin/true']), lambda: "
      "os.posix_spawn('/bin/true', ['true'], {})):\n"
      "    try:\n"
      "        make()\n"
      "        print('spawned')\n"
      "    except PermissionError:\n"
      "        print('refused')\n"
      "os.execv('/bin/echo', ['echo', 'replaced'])\n";
  const ProgramResult run = run_under_filter(Profile::NoSpawn, {"/usr/bin/python3", "-uc", code});
  EXPECT_EQ(run.ended, (Ended{.status = 0})) << run.output;
  EXPECT_EQ(run.output, "thread\nrefused\nrefused\nrefused\nreplaced\n");
}

// In a whole sandbox: as an ordinary user and as root inside, by system call and by tool.
TEST(P10NoNestedNamespaces, ASandboxMakesNone) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    test::Box box(test::as_user(uid));
    test::expect_all_refused(box.python(test::attack(R"(
import struct, subprocess
flags = {'mnt': 0x20000, 'cgroup': 0x2000000, 'uts': 0x4000000, 'ipc': 0x8000000, 'user': 0x10000000,
         'pid': 0x20000000, 'net': 0x40000000, 'time': 0x80}
def clone(flags):
    child = call(56, flags | 17, None, None, None, None)
    if child == 0: os._exit(0)
    os.waitpid(child, 0)
def clone3(flags):
    child = call(435, ctypes.create_string_buffer(struct.pack('<11Q', flags, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)), 88)
    if child == 0: os._exit(0)
    os.waitpid(child, 0)
for name, flag in flags.items():
    attempt('unshare ' + name, lambda: call(272, flag))
    attempt('unshare with user ' + name, lambda: call(272, flag | flags['user']))
    if name != 'time':
        attempt('clone ' + name, lambda: clone(flag))
        attempt('clone with user ' + name, lambda: clone(flag | flags['user'] | 1 << 40))
    attempt('clone3 ' + name, lambda: clone3(flag))
    for kind in ('self', '1'):
        path = f'/proc/{kind}/ns/{name}'
        attempt('setns ' + path, lambda: call(308, os.open(path, os.O_RDONLY), 0))
attempt('clone3 plain', lambda: clone3(0))
for tool in (['unshare', '-U', 'true'], ['unshare', '-r', 'true'], ['unshare', '-n', 'true'], ['bwrap', '--bind', '/', '/', 'true']):
    try:
        if subprocess.run(tool, capture_output=True).returncode == 0: say('tool ' + ' '.join(tool), 'WORKED')
    except FileNotFoundError:
        pass
)")),
                             50);
  }
}

// The wall behind the filter: in the sandbox's user namespace no further one can be made, with
// every capability and without a filter.
TEST(P10NoNestedNamespaces, TheUserNamespaceIsTheLast) {
  test::Box box;
  const auto nest = [] { return ::unshare(CLONE_NEWUSER) == 0 ? 0 : errno; };
  EXPECT_EQ(test::in_namespaces(box.init_pid(), CLONE_NEWUSER, nest), ENOSPC);
}

TEST(P10NoNestedNamespaces, ProgramsAndThreadsStartInASandbox) {
  test::Box box;
  const auto result = box.python(R"(
import multiprocessing, os, subprocess, threading
thread = threading.Thread(target=lambda: print('thread', flush=True)); thread.start(); thread.join()
print(subprocess.run(['/bin/sh', '-c', 'echo child | cat'], capture_output=True, text=True).stdout, end='')
print(sum(multiprocessing.Pool(2).map(abs, [-1, -2])))
)");
  EXPECT_EQ(result.out, "thread\nchild\n3\n") << result.err;
}

}  // namespace
}  // namespace caisson::security
