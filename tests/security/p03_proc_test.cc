// P3: /proc shows only the guest and changes nothing outside.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>

#include "tests/security/attack.h"

namespace caisson::test {
namespace {

// The host's own secrets and levers. A kernel need not have all of them.
constexpr auto kMasked = std::to_array<const char*>(
    {"kcore", "keys", "key-users", "timer_list", "sched_debug", "kmsg", "kallsyms", "interrupts",
     "slabinfo", "vmallocinfo", "kpagecount", "kpageflags", "kpagecgroup", "acpi", "asound", "scsi",
     "latency_stats", "timer_stats"});
constexpr auto kReadOnly =
    std::to_array<const char*>({"sys", "sysrq-trigger", "irq", "bus", "fs", "pressure"});

// As the host's root in the guest's mounts: only the mask itself can hide anything from it.
TEST(P03, MasksHideTheFilesEvenFromRoot) {
  Box box;
  int seen = 0;
  for (const char* name : kMasked) {
    const std::string path = std::string("/proc/") + name;
    const auto look = [&] {
      struct stat facts{};
      if (::lstat(path.c_str(), &facts) != 0) return errno == ENOENT ? 1 : 2;
      if (S_ISDIR(facts.st_mode)) return std::filesystem::is_empty(path) ? 0 : 3;
      if (!S_ISCHR(facts.st_mode) || facts.st_rdev != ::makedev(1, 3)) return 4;
      char byte = 0;
      const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      return file && ::read(file.get(), &byte, 1) == 0 ? 0 : 5;
    };
    const int result = in_namespaces(box.init_pid(), CLONE_NEWNS, look);
    EXPECT_LE(result, 1) << path << " " << result;
    if (result == 0) ++seen;
    // Absent inside means absent outside: nothing is hidden by a mere accident of this kernel.
    EXPECT_EQ(result == 1, !std::filesystem::exists(path)) << path;
  }
  EXPECT_GT(seen, 5);
}

TEST(P03, KernelSettingsAreReadOnlyEvenForRoot) {
  Box box;
  const std::string pattern = read_text("/proc/sys/kernel/core_pattern");
  const auto write_back = [&] {
    const UniqueFd file(::open("/proc/sys/kernel/core_pattern", O_WRONLY | O_CLOEXEC));
    if (!file) return errno;
    return ::write(file.get(), pattern.data(), pattern.size()) < 0 ? errno : 0;
  };
  EXPECT_EQ(in_namespaces(box.init_pid(), CLONE_NEWNS, write_back), EROFS);
  for (const char* name : kReadOnly) {
    const std::string path = std::string("/proc/") + name;
    if (!std::filesystem::exists(path)) continue;
    const auto touch = [&] {
      return ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0) == 0 ? 0 : errno;
    };
    EXPECT_EQ(in_namespaces(box.init_pid(), CLONE_NEWNS, touch), EROFS) << path;
  }
}

// Walks everything in /proc that is no process: what can be opened for writing there is a lever on
// the whole machine. Opening alone changes nothing.
constexpr const char* kLevers = R"(
import stat
writable = 0
for top, folders, files in os.walk('/proc'):
    if top == '/proc':
        folders[:] = [f for f in folders if not f.isdigit() and f not in ('self', 'thread-self')]
    for name in files:
        path = os.path.join(top, name)
        try:
            facts = os.lstat(path)
            if stat.S_ISLNK(facts.st_mode): continue
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            continue
        # Masks are the null device: writing there is harmless.
        opened = os.fstat(fd)
        if not (stat.S_ISCHR(opened.st_mode) and opened.st_rdev == os.makedev(1, 3)):
            say('lever ' + path, 'WORKED')
        writable += 1
        os.close(fd)
say('masks', writable)
for name in ('sys/kernel/core_pattern', 'sys/kernel/modprobe', 'sys/kernel/hostname', 'sys/vm/drop_caches',
             'sys/net/ipv4/ip_forward', 'sys/user/max_user_namespaces', 'sys/kernel/ns_last_pid',
             'sys/fs/binfmt_misc/register', 'sys/kernel/randomize_va_space', 'sysrq-trigger', 'mtrr'):
    attempt('write ' + name, lambda: write('/proc/' + name, '1'))
    attempt('chmod ' + name, lambda: os.chmod('/proc/' + name, 0o777))
attempt('below the floor', lambda: write('/proc/self/oom_score_adj', '-1000'))
attempt('uid_map', lambda: write('/proc/self/uid_map', '0 0 1'))
attempt('setgroups', lambda: write('/proc/self/setgroups', 'deny'))
)";

TEST(P03, NoLeverCanBePulled) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box(as_user(uid));
    const auto found = expect_all_refused(box.python(attack(kLevers)), 20);
    EXPECT_NE(found.at("masks"), "0");
  }
}

TEST(P03, OnlyTheGuestsProcessesAreListed) {
  Box box;
  const auto result = box.python(R"(
import os
pids = sorted(int(p) for p in os.listdir('/proc') if p.isdigit())
print(pids == sorted({1, os.getpid()}))
for pid in pids:
    print(open(f'/proc/{pid}/status').readline().split()[1])
)");
  EXPECT_EQ(result.out, "True\ncaisson-init\npython3\n") << result.err;
}

TEST(P03, HostsNumbersAreNotInTheGuestsProc) {
  Box box;
  const pid_t ours = ::getpid();
  const auto look = [&] {
    return ::access(("/proc/" + std::to_string(ours) + "/status").c_str(), F_OK) == 0 ? 0 : errno;
  };
  EXPECT_EQ(in_namespaces(box.init_pid(), CLONE_NEWNS, look), ENOENT);
}

// A guest whose root it may change cannot make /proc or the null device something else for the next
// exec, because both are mounts.
TEST(P03, AWritableRootCannotReplaceProcOrDev) {
  Box box([](control::LocalSpec& local) {
    as_user(0)(local);
    local.spec.request.root = engine::RootMode::Writable;
  });
  expect_all_refused(box.python(attack(R"(
for name in ('/proc', '/dev', '/dev/null', '/dev/pts', '/proc/sys', '/proc/kallsyms', '/usr', '/tmp'):
    attempt('rename ' + name, lambda: os.rename(name, '/moved'))
    attempt('remove ' + name, lambda: os.unlink(name))
    attempt('rmdir ' + name, lambda: os.rmdir(name))
)")),
                     24);
  EXPECT_EQ(box.sh("test -c /dev/null && test -d /proc/1 && echo fine").out, "fine\n");
}

TEST(P03, WhatProgramsNeedIsThere) {
  Box box;
  const auto result = box.python(R"(
for name in ('cpuinfo', 'meminfo', 'stat', 'uptime', 'loadavg', 'version', 'filesystems', 'self/maps',
             'self/status', 'self/mounts', 'sys/kernel/osrelease', 'sys/vm/overcommit_memory',
             'sys/kernel/random/uuid', 'sys/kernel/pid_max'):
    assert open('/proc/' + name).read(), name
open('/proc/self/comm', 'w').write('renamed')
print(open('/proc/self/comm').read().strip())
)");
  EXPECT_EQ(result.out, "renamed\n") << result.err;
}

}  // namespace
}  // namespace caisson::test
