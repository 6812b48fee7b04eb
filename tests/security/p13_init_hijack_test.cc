// P13: init and its control channel cannot be hijacked, and a tenant cannot make init deaf.
#include <gtest/gtest.h>

#include <stop_token>
#include <thread>

#include "tests/security/attack.h"

namespace caisson::test {
namespace {

using engine::seccomp::Profile;

constexpr const char* kReachInit = R"(
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
attempt('ptrace attach', lambda: call(101, PTRACE_ATTACH, 1, 0, 0))
attempt('ptrace seize', lambda: call(101, PTRACE_SEIZE, 1, 0, 0))
class Vector(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]
room = ctypes.create_string_buffer(64)
near, far = Vector(ctypes.addressof(room), 64), Vector(0x400000, 64)
for name, number in (('process_vm_readv', 310), ('process_vm_writev', 311)):
    attempt(name, lambda: call(number, 1, ctypes.byref(near), 1, ctypes.byref(far), 1, 0))
pidfd = os.pidfd_open(1)
for fd in range(12):
    attempt(f'pidfd_getfd {fd}', lambda: call(438, pidfd, fd, 0))
attempt('process_madvise', lambda: call(440, pidfd, ctypes.byref(near), 1, 21, 0))
attempt('setns by pidfd', lambda: call(308, pidfd, 0x00020000))
attempt('kcmp', lambda: call(312, 1, os.getpid(), 0, 3, 3))
for name in ('mem', 'environ', 'maps', 'smaps', 'auxv', 'syscall', 'stack', 'pagemap', 'io', 'personality', 'timers'):
    attempt('read ' + name, lambda: read('/proc/1/' + name))
for name in ('mem', 'clear_refs', 'comm', 'oom_score_adj', 'uid_map', 'coredump_filter', 'timerslack_ns', 'attr/current'):
    attempt('write ' + name, lambda: write('/proc/1/' + name, '0'))
for name in ('fd', 'fdinfo', 'map_files', 'task/1/fd'):
    attempt('list ' + name, lambda: os.listdir('/proc/1/' + name) or None)
for name in ('root', 'cwd', 'exe', 'ns/mnt', 'ns/user', 'ns/pid', 'fd/3', 'fd/4', 'fd/5', 'fd/9'):
    attempt('link ' + name, lambda: os.readlink('/proc/1/' + name))
    attempt('open ' + name, lambda: os.open('/proc/1/' + name, os.O_RDONLY))
attempt('prlimit', lambda: call(302, 1, 7, ctypes.create_string_buffer(16), None))
attempt('setpriority', lambda: call(141, 0, 1, 19))
attempt('sched_setaffinity', lambda: call(203, 1, 8, ctypes.create_string_buffer(b'\1' + bytes(7))))
attempt('sched_setscheduler', lambda: call(144, 1, 3, ctypes.create_string_buffer(4)))
attempt('setpgid', lambda: os.setpgid(1, 1))
attempt('ioprio_set', lambda: call(251, 1, 1, 3 << 13))
)";

TEST(P13, InitIsOutOfReach) {
  for (const Profile profile : {Profile::Default, Profile::Debug}) {
    for (const std::uint32_t uid : {1000U, 0U, 65534U}) {
      Box box([&](control::LocalSpec& local) {
        as_user(uid)(local);
        local.spec.request.profile = profile;
      });
      expect_all_refused(box.python(attack(kReachInit)), 65);
      EXPECT_TRUE(box.session().ping());
    }
  }
}

TEST(P13, InitIsOutOfReachOfTheRootOfAnImage) {
  for (const Profile profile : {Profile::Default, Profile::Debug}) {
    Box box([&](control::LocalSpec& local) {
      as_root_of_image(local);
      local.spec.request.profile = profile;
    });
    expect_all_refused(box.python(attack(kReachInit)), 65);
    EXPECT_TRUE(box.session().ping());
  }
}

TEST(P13, InitTellsNothingAboutItself) {
  Box box;
  const std::string pid = std::to_string(box.init_pid());
  EXPECT_EQ(read_text("/proc/" + pid + "/environ"), "") << "its environment is empty";
  EXPECT_EQ(read_text("/proc/" + pid + "/cmdline"), std::string("caisson-init\0", 13));
  struct stat facts{};
  ASSERT_EQ(::stat(("/proc/" + pid + "/mem").c_str(), &facts), 0);
  // The files of a process that is not dumpable belong to root of its user namespace, not to it.
  EXPECT_NE(facts.st_uid, first_id(box.init_pid()) + 65535) << "init is dumpable";
  EXPECT_NE(facts.st_uid, first_id(box.init_pid()) + 1000);
}

TEST(P13, NoSignalReachesInit) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box(as_user(uid));
    const auto result = box.python(attack(R"(
import signal, threading
pidfd = os.pidfd_open(1)
for number in range(1, 65):
    attempt(f'kill {number}', lambda: os.kill(1, number))
    attempt(f'tgkill {number}', lambda: call(234, 1, 1, number))
    attempt(f'pidfd {number}', lambda: call(424, pidfd, number, None, 0))
    attempt(f'queue {number}', lambda: call(129, 1, number, ctypes.create_string_buffer(128)))
attempt('group', lambda: os.killpg(1, signal.SIGKILL))
)"));
    expect_all_refused(result, 200);
    EXPECT_TRUE(box.session().ping());
  }
}

// It may send signals to every id inside. init takes none of them: the kernel keeps those that
// cannot be blocked from the first process of a namespace.
TEST(P13, NoSignalOfTheRootOfAnImageHarmsInit) {
  Box box(as_root_of_image);
  const auto result = box.python(R"(
import os, signal
pidfd = os.pidfd_open(1)
for _ in range(20):
    for number in range(1, 65):
        for send in (lambda: os.kill(1, number), lambda: signal.pidfd_send_signal(pidfd, number)):
            try: send()
            except OSError: pass
print('sent')
)");
  EXPECT_EQ(result.out, "sent\n") << result.err;
  EXPECT_TRUE(box.session().ping());
  EXPECT_EQ(box.sh("echo alive").out, "alive\n");
  EXPECT_TRUE(box.session().write_file({0, 0}, "/tmp/file", "content"));
}

// kill(-1) is everything the caller may signal: its own kin, and never init.
TEST(P13, KillingEverybodyLeavesInit) {
  const std::function<void(control::LocalSpec&)> users[] = {as_user(1000), as_user(0),
                                                            as_root_of_image};
  for (const auto& user : users) {
    for (const char* number : {"9", "19", "15"}) {
      Box box(user);
      control::ExecuteOptions options;
      options.timeout = milliseconds{20'000};
      (void)box.python(std::string("import os\nfor _ in range(100):\n    try: os.kill(-1, ") +
                           number + ")\n    except OSError: pass\n",
                       options);
      EXPECT_TRUE(box.session().ping());
      EXPECT_EQ(box.sh("echo alive").out, "alive\n");
    }
  }
}

// A tenant on its way to exec has the tenant's id already: siblings may stop it there. Whoever
// waits for it waits no longer than its timeout, and init answers throughout.
TEST(P13, StoppingHalfMadeSiblingsHangsNobody) {
  constexpr int kExecs = 40;
  Box box;
  std::jthread stopper([&](const std::stop_token& stop) {
    engine::ExecRequest request;
    request.argv = {"/usr/bin/python3", "-I", "-c", R"(
import os, signal
me = os.getpid()
open('/tmp/stopping', 'w').close()
while True:
    # The next numbers of the namespace: whoever is being made right now has one of them.
    last = int(open('/proc/loadavg').read().split()[-1])
    for pid in range(last, last + 4):
        if pid != me:
            try: os.kill(pid, signal.SIGSTOP)
            except OSError: pass
)"};
    request.user = {1000, 1000};
    request.stop = stop;
    (void)box.session().execute(request);
  });
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  while (!box.session().stat({1000, 1000}, "/tmp/stopping") && Clock::now() < deadline)
    EXPECT_TRUE(box.session().ping());
  int stopped = 0;
  // Who attacks needs the processor at the right moment: on a busy host, that may take a while.
  const auto patience = Clock::now() + std::chrono::seconds(30);
  for (int i = 0; i < kExecs || (stopped == 0 && Clock::now() < patience); ++i) {
    control::ExecuteOptions options;
    options.timeout = milliseconds{200};
    const auto result = manager().execute(box.id(), {"/bin/true"}, options);
    ASSERT_TRUE(result) << result.error().message;
    stopped += result->timed_out ? 1 : 0;
    EXPECT_TRUE(result->timed_out || result->exit_code == 0) << result->exit_code;
    EXPECT_TRUE(box.session().ping());
  }
  EXPECT_GT(stopped, 0) << "the attack never hit: this test shows nothing";
  stopper.request_stop();
  stopper.join();
  EXPECT_EQ(box.sh("echo alive").out, "alive\n");
}

// The children that do file operations are no kin of the tenant: only the ids that files are judged
// by are its own, and no signal reaches them.
TEST(P13, FileOperationsAreOutOfReach) {
  Box box;
  std::jthread stopper([&](const std::stop_token& stop) {
    engine::ExecRequest request;
    request.argv = {"/usr/bin/python3", "-I", "-c", R"(
import os, signal
me = os.getpid()
open('/tmp/stopping', 'w').close()
while True:
    last = int(open('/proc/loadavg').read().split()[-1])
    for pid in range(last, last + 4):
        if pid != me:
            for number in (signal.SIGSTOP, signal.SIGKILL):
                try: os.kill(pid, number)
                except OSError: pass
)"};
    request.user = {1000, 1000};
    request.stop = stop;
    (void)box.session().execute(request);
  });
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  while (!box.session().stat({1000, 1000}, "/tmp/stopping") && Clock::now() < deadline)
    EXPECT_TRUE(box.session().ping());
  const std::string content(1024 * 1024, 'x');
  for (int i = 0; i < 100; ++i) {
    const auto written = box.session().write_file({1000, 1000}, "/tmp/file", content);
    EXPECT_TRUE(written) << (written ? "" : written.error().message);
    EXPECT_TRUE(box.session().ping());
  }
  stopper.request_stop();
  stopper.join();
}

}  // namespace
}  // namespace caisson::test
