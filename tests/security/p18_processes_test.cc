// P18: processes, threads and descriptors are bounded, and orphans are reaped.
#include <gtest/gtest.h>
#include <sys/inotify.h>

#include <ctime>
#include <future>

#include "tests/security/attack.h"
#include "tests/security/host_view.h"
#include "tests/support/box.h"

namespace caisson::test {
namespace {

constexpr std::uint32_t kProcesses = 48;
constexpr std::uint32_t kOwn = 2;  // init, and one file operation

void few(control::LocalSpec& local) { local.spec.request.limits.processes = kProcesses; }

std::set<pid_t> only_init(Box& box) { return {box.init_pid()}; }

TEST(P18, ForkStopsAtTheLimit) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box([&](control::LocalSpec& local) {
      few(local);
      local.spec.request.uid = uid;
    });
    const auto result = box.python(R"(
import os, errno
hold, release = os.pipe()
made = 0
while made < 4096:
    try: pid = os.fork()
    except OSError as error:
        print(errno.errorcode[error.errno]); break
    if pid == 0:
        os.close(release); os.read(hold, 1); os._exit(0)
    made += 1
print(made)
)");
    const std::size_t line = result.out.find('\n');
    EXPECT_EQ(result.out.substr(0, line), "EAGAIN") << result.out << result.err;
    const int made = std::atoi(result.out.substr(line + 1).c_str());
    EXPECT_LE(made, static_cast<int>(kProcesses + kOwn)) << uid;
    EXPECT_GE(made, static_cast<int>(kProcesses - kOwn)) << uid;
    EXPECT_EQ(members(manager().host(), box.id()), only_init(box));
  }
}

TEST(P18, ThreadsCountAsProcesses) {
  Box box(few);
  const auto result = box.python(R"(
import threading
threading.stack_size(65536)
stop = threading.Event()
made = 0
try:
    while made < 4096:
        threading.Thread(target=stop.wait, daemon=True).start(); made += 1
except RuntimeError: print('refused')
print(made)
)");
  ASSERT_TRUE(result.out.starts_with("refused\n")) << result.out << result.err;
  EXPECT_LE(std::atoi(result.out.c_str() + 8), static_cast<int>(kProcesses + kOwn));
}

// The classic: each child makes two more and none ever waits. The neighbour starts programs all the
// while, and the deadline ends the bomb.
TEST(P18, ABombInOneSandboxIsNotHeardInAnother) {
  Box bombed(few);
  Box neighbour;
  auto bomb = std::async(std::launch::async, [&] {
    return bombed.python(R"(
import os
while True:
    try: os.fork()
    except OSError: pass
)",
                         within(seconds(3)));
  });
  int answers = 0;
  std::uint32_t most = 0;
  do {
    EXPECT_EQ(neighbour.sh("echo $((6 * 7))").out, "42\n");
    most = std::max(most, bombed.status().usage.processes);
    ++answers;
  } while (bomb.wait_for(seconds(0)) != std::future_status::ready);
  const auto result = bomb.get();
  EXPECT_TRUE(result.timed_out);
  EXPECT_GT(answers, 2);
  EXPECT_LE(most, kProcesses + kOwn);
  EXPECT_GE(most, kProcesses) << "the bomb did not reach the limit";
  EXPECT_EQ(members(manager().host(), bombed.id()), only_init(bombed));
  EXPECT_EQ(bombed.sh("echo alive").out, "alive\n");
}

TEST(P18, TenThousandOrphansLeaveNoZombie) {
  Box box([](control::LocalSpec& local) {
    show_payloads(local);
    local.spec.request.limits.processes = 256;
  });
  const auto result = box.python(
      "import subprocess, os, time\n"
      "orphans = '" +
      payload("orphans") + R"('
print(subprocess.run([orphans, '10000']).returncode)
def zombies():
    count = 0
    for name in os.listdir('/proc'):
        if not name.isdigit(): continue
        try: count += open('/proc/%s/stat' % name).read().rsplit(')', 1)[1].split()[0] == 'Z'
        except OSError: pass
    return count
deadline = time.monotonic() + 20
while zombies() and time.monotonic() < deadline: pass
print(zombies())
)");
  EXPECT_EQ(result.out, "0\n0\n") << result.err;
  EXPECT_TRUE(eventually([&] { return box.status().usage.processes == 1; }))
      << box.status().usage.processes;
}

TEST(P18, DescriptorsStopAtTheLimit) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box([&](control::LocalSpec& local) {
      local.spec.request.limits.open_files = 100;
      local.spec.request.uid = uid;
    });
    const auto result = box.python(R"(
import os, errno, resource
try: resource.setrlimit(resource.RLIMIT_NOFILE, (101, 101)); print('RAISED')
except (ValueError, OSError): pass
held = 0
try:
    while held < 100000: os.open('/dev/null', 0); held += 1
except OSError as error: print(errno.errorcode[error.errno], held)
)");
    EXPECT_EQ(result.out, "EMFILE 97\n") << uid << result.err;
  }
}

// Pending signals and message queues live in kernel memory that no group of v1 counts.
TEST(P18, SignalsAndMessageQueuesAreBounded) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box([&](control::LocalSpec& local) { local.spec.request.uid = uid; });
    const auto result = box.python(R"(
import ctypes, errno, os, resource, signal
libc = ctypes.CDLL(None, use_errno=True)
number = signal.SIGRTMIN
signal.pthread_sigmask(signal.SIG_BLOCK, {number})
queued = 0
while queued < 1000000 and libc.sigqueue(os.getpid(), number, ctypes.c_void_p(queued)) == 0: queued += 1
print('signals', queued <= 4096, errno.errorcode.get(ctypes.get_errno()))
attributes = (ctypes.c_long * 8)(0, 10, 512)
queues = 0
while queues < 1000 and libc.mq_open(b'/q%d' % queues, os.O_RDWR | os.O_CREAT, 0o600, attributes) >= 0: queues += 1
print('queues', queues < 64, queues > 0 or errno.errorcode.get(ctypes.get_errno()))
for limit in (resource.RLIMIT_SIGPENDING, resource.RLIMIT_MSGQUEUE, resource.RLIMIT_MEMLOCK):
    soft, hard = resource.getrlimit(limit)
    try: resource.setrlimit(limit, (hard + 1, hard + 1)); print('RAISED', limit)
    except (ValueError, OSError): pass
)");
    EXPECT_NE(result.out.find("signals True EAGAIN\n"), std::string::npos)
        << result.out << result.err;
    EXPECT_NE(result.out.find("queues True"), std::string::npos) << result.out << result.err;
    EXPECT_EQ(result.out.find("RAISED"), std::string::npos) << result.out;
  }
}

// The kernel also counts these for whoever made the user namespace. Were that one and the same for
// all, a single sandbox could leave none of them to the others, nor to the host's root.
TEST(P18, WhatIsCountedByUserIsEachSandboxsOwn) {
  Box greedy(as_root_of_image);
  Box neighbour;
  std::stop_source stop;
  engine::ExecRequest request;
  request.argv = {"/usr/bin/python3", "-Ic", R"(
import ctypes, os, signal
libc = ctypes.CDLL(None)
number = signal.SIGRTMIN
for user in range(1, 33):
    ready, done = os.pipe()
    if os.fork() == 0:
        os.setresuid(user, user, user)
        while libc.inotify_init() >= 0: pass
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
        while libc.sigqueue(os.getpid(), number, ctypes.c_void_p(0)) == 0: pass
        os.write(done, b'.')
        signal.pause()
    os.read(ready, 1)
open('/tmp/full', 'w').close()
signal.pause()
)"};
  request.user = {0, 0};
  request.stop = stop.get_token();
  auto full = std::async(std::launch::async, [&] { return greedy.session().execute(request); });
  ASSERT_TRUE(eventually([&] { return greedy.session().stat({0, 0}, "/tmp/full").has_value(); }));
  const auto result = neighbour.python(R"(
import ctypes
libc = ctypes.CDLL(None)
print(libc.inotify_init() >= 0, libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())))
)");
  EXPECT_EQ(result.out, "True 0\n") << result.err;
  EXPECT_TRUE(UniqueFd(::inotify_init1(IN_CLOEXEC))) << "the host's root has none left";
  timer_t timer{};
  const bool made = ::timer_create(CLOCK_MONOTONIC, nullptr, &timer) == 0;
  EXPECT_TRUE(made) << "the host's root can queue no signal";
  if (made) (void)::timer_delete(timer);
  stop.request_stop();
  EXPECT_TRUE(full.get());
}

// Whoever asks something of a full sandbox is told so at once, by type; nothing waits for a place
// that the guest will not give back.
TEST(P18, AFullGuestIsATypedErrorAndNoHang) {
  Box box(few);
  std::stop_source stop;
  engine::ExecRequest request;
  request.argv = {"/usr/bin/python3", "-Ic", R"(
import os, signal
while True:
    try:
        if os.fork() == 0: signal.pause()
    except OSError: pass
)"};
  request.user = {1000, 1000};
  request.stop = stop.get_token();
  auto full = std::async(std::launch::async, [&] { return box.session().execute(request); });
  ASSERT_TRUE(eventually([&] { return box.status().usage.processes == kProcesses + kOwn; }));
  const auto command = manager().execute(box.id(), {"/bin/true"});
  ASSERT_FALSE(command);
  EXPECT_EQ(command.error().code, Errc::Exhausted) << command.error().message;
  const auto file = box.session().stat({1000, 1000}, "/tmp");
  EXPECT_TRUE(file || file.error().code == Errc::Exhausted) << file.error().message;
  EXPECT_TRUE(box.session().ping());
  stop.request_stop();
  EXPECT_TRUE(full.get());
  EXPECT_EQ(members(manager().host(), box.id()), only_init(box));
  EXPECT_EQ(box.sh("echo alive").out, "alive\n");
  EXPECT_TRUE(box.session().stat({1000, 1000}, "/tmp"));
}

TEST(P18, ANewLimitHoldsAtOnce) {
  Box box(few);
  engine::Limits limits = manager().request(box.id())->limits;
  limits.processes = 8;
  ASSERT_TRUE(manager().set_limits(box.id(), limits));
  const auto result = box.python(R"(
import os, signal
made = 0
try:
    while True:
        if os.fork() == 0: signal.pause()
        made += 1
except OSError: print(made)
)");
  EXPECT_LE(std::atoi(result.out.c_str()), static_cast<int>(8 + kOwn)) << result.out << result.err;
}

}  // namespace
}  // namespace caisson::test
