// P14: processes outside are invisible and unreachable. Inside, processes of one sandbox may signal
// each other, as programs expect.
#include <gtest/gtest.h>

#include <stop_token>
#include <thread>

#include "tests/security/attack.h"

namespace caisson::test {
namespace {

// The victim has the very kernel id of the tenant, so that its id alone would not protect it.
constexpr const char* kReachVictim = R"(
import signal
victim = int(os.environ['VICTIM'])
for number in (0, signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
    attempt(f'kill {number}', lambda: os.kill(victim, number))
    attempt(f'killpg {number}', lambda: os.killpg(victim, number))
    attempt(f'tgkill {number}', lambda: call(234, victim, victim, number))
attempt('pidfd', lambda: os.pidfd_open(victim))
attempt('proc', lambda: os.stat(f'/proc/{victim}'))
attempt('priority', lambda: call(141, 0, victim, 19))
attempt('affinity', lambda: call(204, victim, 8, ctypes.create_string_buffer(8)))
attempt('limits', lambda: call(302, victim, 7, None, ctypes.create_string_buffer(16)))
attempt('session', lambda: os.getsid(victim))
attempt('group', lambda: os.getpgid(victim))
attempt('wait', lambda: os.waitpid(victim, os.WNOHANG))
)";

TEST(P14, AHostProcessOfTheSameIdIsOutOfReach) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box(as_user(uid));
    const Victim victim(first_id(box.init_pid()) + uid);
    control::ExecuteOptions options;
    options.env = {"VICTIM=" + std::to_string(victim.pid())};
    expect_all_refused(box.python(attack(kReachVictim), options), 20);
    EXPECT_TRUE(victim.alive());
  }
}

TEST(P14, KillingEveryNumberReachesNobodyOutside) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box(as_user(uid));
    const Victim victim(first_id(box.init_pid()) + uid);
    control::ExecuteOptions options;
    options.env = {"NUMBERS=" + read_text("/proc/sys/kernel/pid_max")};
    const auto result = box.python(attack(R"(
import signal
seen = []
for pid in range(2, int(os.environ['NUMBERS']) + 1):
    try:
        os.kill(pid, 0)
        seen.append(pid)
    except OSError:
        pass
print(seen == [os.getpid()])
for number in (signal.SIGTERM, signal.SIGKILL):
    try: os.kill(-1, number)
    except OSError: pass
)"),
                                   options);
    EXPECT_EQ(result.out, "True\n") << result.err;
    EXPECT_TRUE(victim.alive());
    EXPECT_TRUE(box.session().ping());
  }
}

TEST(P14, SiblingSandboxesDoNotSeeEachOther) {
  Box one;
  Box two;
  std::jthread tenant([&](const std::stop_token& stop) {
    engine::ExecRequest request;
    request.argv = {"/bin/sh", "-c", "touch /tmp/there; while :; do read x; done </dev/zero"};
    request.user = {1000, 1000};
    request.stop = stop;
    (void)one.session().execute(request);
  });
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  while (!one.session().stat({1000, 1000}, "/tmp/there") && Clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(two.sh("kill -9 -1; echo done").out, "done\n");
  EXPECT_EQ(two.python("import os; print([p for p in os.listdir('/proc') if p.isdigit() and int(p) "
                       "not in (1, os.getpid())])")
                .out,
            "[]\n");
  EXPECT_FALSE(two.session().stat({1000, 1000}, "/tmp/there"));
  EXPECT_EQ(one.session().list_processes().value().size(), 1U);
}

TEST(P14, TwoExecsOfOneSandboxSignalEachOther) {
  Box box;
  engine::ExecRequest request;
  request.argv = {"/bin/sh", "-c",
                  "trap 'echo signalled; exit 7' USR1; echo $$ >/tmp/pid; while :; do :; done"};
  request.env = {"PATH=/usr/bin:/bin"};
  request.user = {1000, 1000};
  request.timeout = milliseconds{60'000};
  Result<engine::ExecResult> waiting = std::unexpected(Error{});
  std::thread thread([&] { waiting = box.session().execute(request); });
  const auto result = box.sh("while ! test -s /tmp/pid; do :; done; kill -USR1 $(cat /tmp/pid)");
  thread.join();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  ASSERT_TRUE(waiting) << waiting.error().message;
  EXPECT_EQ(waiting->out, "signalled\n");
  EXPECT_EQ(waiting->exit_code, 7);
}

// What the launcher's starter ignored is not ignored inside: a broken pipe ends a program.
TEST(P14, SignalsHaveTheirDefaults) {
  Box box;
  EXPECT_EQ(box.sh("grep -E '^Sig(Ign|Blk)' /proc/self/status | tr -d '\\t'").out,
            "SigBlk:0000000000000000\nSigIgn:0000000000000000\n");
  EXPECT_EQ(box.sh("(yes; echo status $? >&2) | head -n 1").err, "status 141\n");
}

}  // namespace
}  // namespace caisson::test
