// P19: the processor is shared as the limit says, and cannot be seized.
#include <gtest/gtest.h>

#include "tests/security/host_view.h"
#include "tests/support/box.h"

namespace caisson::test {
namespace {

constexpr const char* kSpinOnAllCores = R"(
import os
for _ in range(os.cpu_count() * 2):
    if os.fork() == 0:
        os.setsid()
        while True: pass
while True: pass
)";

double share(const control::ExecutionResult& result) {
  return result.resource_usage.cpu_seconds / (result.duration_ms / 1000);
}

TEST(P19, SpinnersOnAllCoresGetTheirShareAndNoMore) {
  Box box([](control::LocalSpec& local) { local.spec.request.limits.cpu_millis = 500; });
  const auto result = box.python(kSpinOnAllCores, within(seconds(3)));
  EXPECT_TRUE(result.timed_out);
  EXPECT_LT(share(result), 0.5 * 1.15);
  EXPECT_GT(share(result), 0.5 * 0.6) << "the machine is too loaded to say";
}

TEST(P19, ANewShareHoldsAtOnce) {
  Box box;
  const auto free = box.python(kSpinOnAllCores, within(milliseconds(1500)));
  engine::Limits limits = manager().request(box.id())->limits;
  limits.cpu_millis = 250;
  ASSERT_TRUE(manager().set_limits(box.id(), limits));
  const auto limited = box.python(kSpinOnAllCores, within(seconds(3)));
  EXPECT_LT(share(limited), 0.25 * 1.2);
  EXPECT_GT(share(free), share(limited) * 1.5);
}

// Whatever makes a process more urgent than others is refused; what makes it less so is its own
// affair.
TEST(P19, NoProcessMakesItselfUrgent) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box([&](control::LocalSpec& local) { local.spec.request.uid = uid; });
    const auto result = box.python(R"(
import ctypes, os, resource, struct
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, call):
    try:
        call(); print(name, 'WORKED')
    except (OSError, ValueError): print(name, 'refused')
def raw(number, *arguments):
    if libc.syscall(number, *arguments) < 0: raise OSError(ctypes.get_errno(), 'no')
for name, policy in (('fifo', 1), ('rr', 2), ('fifo-reset', 0x40000001)):
    attempt(name, lambda: os.sched_setscheduler(0, policy, os.sched_param(1)))
deadline = struct.pack('IIQiIQQQ', 48, 6, 0, 0, 0, 10**6, 10**7, 10**7)
attempt('deadline', lambda: raw(314, 0, deadline, 0))
attempt('nice', lambda: os.nice(-1))
attempt('nice-20', lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))
attempt('nice-all', lambda: os.setpriority(os.PRIO_USER, 0, -20))
attempt('ioprio-rt', lambda: raw(251, 1, 0, 1 << 13))
attempt('rtprio', lambda: resource.setrlimit(resource.RLIMIT_RTPRIO, (99, 99)) if resource.getrlimit(resource.RLIMIT_RTPRIO)[1] == 0 else print('OPEN'))
attempt('autogroup', lambda: os.write(os.open('/proc/self/autogroup', os.O_WRONLY), b'-20'))
print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))
os.nice(5)
)");
    EXPECT_EQ(result.out.find("WORKED"), std::string::npos) << uid << result.out;
    EXPECT_EQ(result.out.find("OPEN"), std::string::npos) << uid << result.out;
    EXPECT_NE(result.out.find("fifo refused\n"), std::string::npos) << result.out << result.err;
    EXPECT_TRUE(result.out.ends_with("0 0\n")) << uid << result.out << result.err;
  }
}

// A daemon in a session of its own is still part of the tree whose time is counted.
TEST(P19, CpuTimeEndsTheWholeTreeDaemonsIncluded) {
  Box box([](control::LocalSpec& local) { local.spec.request.limits.cpu_time_us = 700'000; });
  const auto result = box.python(R"(
import os, signal
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        while True: pass
for _ in range(2): os.wait()
signal.pause()
)");
  EXPECT_EQ(result.exit_code, 137);
  EXPECT_TRUE(result.breach.starts_with("CPU limit exceeded: ")) << result.breach;
  EXPECT_TRUE(result.breach.ends_with(" s used, limit is 0.7 s")) << result.breach;
  const engine::Status status = box.status();
  EXPECT_EQ(status.end, engine::EndReason::CpuTime);
  EXPECT_GE(status.usage.cpu_time_us, 700'000U);
  EXPECT_LT(status.usage.cpu_time_us, 1'400'000U);
  EXPECT_TRUE(eventually([&] { return members(manager().host(), box.id()).empty(); }));
}

// Short-lived processes do not fall between two looks: the group's own clock counts them.
TEST(P19, ManyShortProcessesAreCountedToo) {
  Box box([](control::LocalSpec& local) { local.spec.request.limits.cpu_time_us = 500'000; });
  const auto result = box.python(R"(
import os
while True:
    pid = os.fork()
    if pid == 0:
        for _ in range(20000): pass
        os._exit(0)
    os.waitpid(pid, 0)
)");
  EXPECT_TRUE(result.breach.starts_with("CPU limit exceeded: ")) << result.breach;
  EXPECT_LT(box.status().usage.cpu_time_us, 1'000'000U);
}

TEST(P19, CpuTimeOfSeveralCommandsAddsUp) {
  Box box([](control::LocalSpec& local) { local.spec.request.limits.cpu_time_us = 1'000'000; });
  const std::string spin = "import time\nwhile time.process_time() < 0.4: pass\nprint('done')";
  EXPECT_EQ(box.python(spin).out, "done\n");
  EXPECT_EQ(box.python(spin).out, "done\n");
  EXPECT_TRUE(box.python(spin).breach.starts_with("CPU limit exceeded: "));
}

}  // namespace
}  // namespace caisson::test
