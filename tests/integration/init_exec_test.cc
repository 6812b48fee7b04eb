// Processes: start, output, input, deadlines, trees.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "init_harness.h"

namespace caisson::test {
namespace {

using engine::ExecRequest;
using engine::ExecResult;

ExecRequest shell(std::string script) {
  ExecRequest request;
  request.argv = {"/bin/sh", "-c", std::move(script)};
  request.env = {"PATH=/usr/bin:/bin"};
  request.user = kUser;
  return request;
}

class InitExec : public testing::TestWithParam<bool> {
 protected:
  ExecResult run(const ExecRequest& request) {
    auto result = session_->execute(request);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? *result : ExecResult{};
  }
  InitSandbox sandbox_{{.groups = GetParam()}};
  std::unique_ptr<engine::GuestSession> session_ = sandbox_.session();
};
INSTANTIATE_TEST_SUITE_P(Groups, InitExec, testing::Bool(),
                         [](const auto& param) { return param.param ? "ByGroup" : "ByWalk"; });

TEST_P(InitExec, ExitCodesAndSignals) {
  EXPECT_EQ(run(shell("exit 0")).exit_code, 0);
  EXPECT_EQ(run(shell("exit 42")).exit_code, 42);
  const ExecResult killed = run(shell("kill -TERM $$"));
  EXPECT_EQ(killed.signal, SIGTERM);
  EXPECT_EQ(killed.exit_code, 128 + SIGTERM);
}

TEST_P(InitExec, StreamsAreApartAndByteExact) {
  const ExecResult result = run(shell(R"(printf 'a\0b\377\n'; printf 'err\033[2J' >&2)"));
  EXPECT_EQ(result.out, std::string("a\0b\377\n", 5));
  EXPECT_EQ(result.err, "err\033[2J");
}

TEST_P(InitExec, MergedStreamsKeepTheirOrder) {
  ExecRequest request = shell("echo 1; echo 2 >&2; echo 3; echo 4 >&2");
  request.merge_error = true;
  EXPECT_EQ(run(request).out, "1\n2\n3\n4\n");
}

TEST_P(InitExec, InputLargerThanTheWindowComesBackWhole) {
  std::string input;
  for (int i = 0; i < 100000; ++i) input += std::to_string(i) + "\n";
  ExecRequest request = shell("cat");
  request.input = input;
  request.output_bytes_max = 2 * 1024 * 1024;
  EXPECT_EQ(run(request).out, input);
}

TEST_P(InitExec, InputThatNobodyReadsDoesNotHang) {
  ExecRequest request = shell("exit 3");
  request.input = std::string(1024 * 1024, 'x');
  EXPECT_EQ(run(request).exit_code, 3);
}

TEST_P(InitExec, FailuresNameTheirStep) {
  ExecRequest request = shell("true");
  request.argv = {"no-such-program"};
  auto result = session_->execute(request);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::NotFound);
  EXPECT_EQ(result.error().message, "no-such-program: exec: No such file or directory");
  request.argv = {"/etc/passwd"};
  result = session_->execute(request);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::Denied);
  request = shell("true");
  request.cwd = "/no/such/folder";
  result = session_->execute(request);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "/bin/sh: working directory: No such file or directory");
  request = shell("true");
  request.user = {kInitId, kInitId};
  EXPECT_FALSE(session_->execute(request));
}

TEST_P(InitExec, TenantHasNothingOfInit) {
  const ExecResult result =
      run(shell("id -u; id -G; grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|SigBlk|SigIgn)' "
                "/proc/self/status; ls /proc/self/fd | wc -l; ulimit -n; umask; "
                "cat /proc/1/environ; ls /proc/1/fd; kill -STOP 1"));
  EXPECT_TRUE(result.out.starts_with("1000\n1000\n")) << result.out;
  for (const char* line :
       {"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
        "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "SigBlk:\t0000000000000000",
        "SigIgn:\t0000000000000000", "\n256\n0022\n"}) {
    EXPECT_NE(result.out.find(line), std::string::npos) << line << " in " << result.out;
  }
  EXPECT_NE(result.out.find("\n4\n256"), std::string::npos)
      << "0, 1, 2 and ls's own folder: " << result.out;
  EXPECT_NE(result.err.find("/proc/1/environ: Permission denied"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("/proc/1/fd"), std::string::npos) << result.err;
  EXPECT_TRUE(session_->ping());
}

TEST_P(InitExec, CollectKeepsHeadAndTail) {
  ExecRequest request = shell("echo begin; head -c 3000000 /dev/zero; echo end");
  request.output_bytes_max = 64 * 1024;
  const ExecResult result = run(request);
  EXPECT_EQ(result.out.size(), 64U * 1024);
  EXPECT_TRUE(result.out.starts_with("begin\n"));
  EXPECT_TRUE(result.out.ends_with("end\n"));
  EXPECT_EQ(result.out_lost, 3000000U + 6 + 4 - 64 * 1024);
}

// A daemon in its own session, one that ignores SIGTERM, one that is stopped: all are gone when the
// exec is over.
TEST_P(InitExec, DeadlineKillsTheWholeTree) {
  ExecRequest request = shell(
      "setsid sh -c 'trap \"\" TERM; echo d1; exec sleep 1000' & "
      "sh -c 'trap \"\" TERM; kill -STOP $$' & "
      "trap '' TERM; echo up; while :; do sleep 1000; done");
  request.timeout = milliseconds(300);
  request.grace = milliseconds(50);
  const ExecResult result = run(request);
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_LT(result.wall, microseconds(2'000'000));
  EXPECT_EQ(run(shell("ps -A -o comm= | grep -c sleep")).out, "0\n");
}

TEST_P(InitExec, BackgroundIsKilledOrKeptAsAsked) {
  const ExecResult killed = run(shell("sleep 1000 & echo started"));
  EXPECT_EQ(killed.out, "started\n");
  EXPECT_TRUE(killed.tree_killed);
  ExecRequest keep = shell("sleep 1000 & echo $!");
  keep.keep_background = true;
  const ExecResult kept = run(keep);
  EXPECT_FALSE(kept.tree_killed);
  // A later exec may signal what an earlier one left: they are one sandbox.
  EXPECT_EQ(run(shell("kill " + kept.out)).exit_code, 0);
}

// A background child that goes on printing must not die of a closed pipe, nor keep the exec open.
TEST_P(InitExec, BackgroundChildMayKeepPrinting) {
  ExecRequest request =
      shell("mkfifo /mnt/go; (read x < /mnt/go; echo late; echo alive > /mnt/proof) & exit 0");
  request.keep_background = true;
  EXPECT_EQ(run(request).exit_code, 0);
  EXPECT_EQ(run(shell("mkfifo /mnt/done; echo > /mnt/go; until [ -s /mnt/proof ]; do :; done; cat "
                      "/mnt/proof"))
                .out,
            "alive\n");
}

TEST_P(InitExec, TenThousandOrphansLeaveNoZombie) {
  ExecRequest request = shell(
      "i=0; while [ $i -lt 10000 ]; do (true &) ; i=$((i+1)); done; ps -A -o stat= | grep -c Z");
  request.timeout = milliseconds(120000);
  (void)run(request);
  // All are reaped before this exec's own end is.
  EXPECT_EQ(run(shell("ps -A -o stat= | grep -c Z")).out, "0\n");
}

TEST_P(InitExec, ManyThreadsAtOnce) {
  constexpr int kThreads = 16;
  constexpr int kRounds = 20;
  std::atomic<int> good = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const std::string word = std::to_string(t) + "." + std::to_string(i);
        auto result = session_->execute(shell("echo " + word));
        if (result && result->out == word + "\n") ++good;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(good, kThreads * kRounds);
}

TEST_P(InitExec, StopTokenEndsAnExec) {
  std::stop_source source;
  ExecRequest request = shell("echo > /mnt/up; exec sleep 1000");
  request.stop = source.get_token();
  std::jthread stopper([&] {
    (void)session_->execute(shell("until [ -e /mnt/up ]; do :; done"));
    source.request_stop();
  });
  EXPECT_EQ(run(request).signal, SIGKILL);
}

TEST_P(InitExec, DeathOfInitAnswersEveryWaiter) {
  std::vector<std::jthread> threads;
  std::atomic<int> gone = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      auto result = session_->execute(shell("echo x >> /mnt/up; exec sleep 1000"));
      if (!result && result.error().code == Errc::Gone) ++gone;
    });
  }
  (void)session_->execute(shell("until [ \"$(wc -l < /mnt/up)\" = 4 ]; do :; done"));
  ::kill(sandbox_.pid(), SIGKILL);
  threads.clear();
  EXPECT_EQ(gone, 4);
  EXPECT_FALSE(session_->alive());
}

TEST_P(InitExec, TheLauncherLeavingEndsTheSandbox) {
  sandbox_.close_control();
  EXPECT_EQ(sandbox_.wait_for_end(), 0);
}

TEST(InitGroups, NothingOutlivesTheKill) {
  InitSandbox sandbox({.groups = true});
  auto session = sandbox.session();
  for (int round = 0; round < 20; ++round) {
    ExecRequest request =
        shell("f() { setsid sh -c 'while :; do sleep 1000 & sleep 1000; done' & }; f; f; f; wait");
    request.timeout = milliseconds(30);
    auto result = session->execute(request);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_TRUE(result->timed_out) << result->err;
    if (!sandbox.group().empty()) EXPECT_EQ(sandbox.tenants(), 0);
  }
}

TEST(InitConfig, OomKillsAreToldToWhoRanThen) {
  const std::string path = testing::TempDir() + "caisson-oom-" + std::to_string(::getpid());
  std::ofstream(path) << "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
  InitSandbox sandbox({.oom_file = path});
  auto session = sandbox.session();
  auto before = session->execute(shell("true"));
  ASSERT_TRUE(before);
  EXPECT_FALSE(before->oom_killed);
  std::jthread killer([&] {
    (void)session->execute(shell("until [ -e /mnt/up ]; do :; done"));
    std::ofstream(path) << "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n";
    (void)session->execute(shell("echo > /mnt/go"));
  });
  auto during = session->execute(shell("mkfifo /mnt/go; echo > /mnt/up; read x < /mnt/go"));
  killer.join();
  ASSERT_TRUE(during);
  EXPECT_TRUE(during->oom_killed);
  auto after = session->execute(shell("true"));
  ASSERT_TRUE(after);
  EXPECT_FALSE(after->oom_killed);
  std::filesystem::remove(path);
}

TEST(InitConfig, TenantsAreTheFirstToGoWhenMemoryRunsOut) {
  InitSandbox sandbox({.raise_oom_score = true});
  auto session = sandbox.session();
  auto result = session->execute(shell("cat /proc/self/oom_score_adj /proc/1/oom_score_adj"));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->out, "500\n0\n");
}

TEST(InitConfig, OneIdForAll) {
  InitSandbox sandbox({.groups = false, .single_id = true});
  auto session = sandbox.session();
  auto result = session->execute(shell("id -u; kill -9 1; cat /proc/1/environ"));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->out, "65535\n");
  ASSERT_TRUE(session->write_file(kUser, "/mnt/f", "x"));
  EXPECT_TRUE(session->ping());
}

TEST(InitLandlock, TenantsShareOneScopeAndSeeOnlyTheirRules) {
  InitSandbox sandbox({.landlock = true, .filter = true});
  auto session = sandbox.session();
  ExecRequest keep = shell("sleep 1000 & echo $!");
  keep.keep_background = true;
  auto kept = session->execute(keep);
  ASSERT_TRUE(kept) << kept.error().message;
  auto killed = session->execute(shell("kill " + kept->out));
  ASSERT_TRUE(killed);
  EXPECT_EQ(killed->exit_code, 0) << killed->err;
  auto outside = session->execute(
      shell("ls /var; echo x > /mnt/ok; cat /mnt/ok; ls /etc > /dev/null && echo etc"));
  ASSERT_TRUE(outside);
  EXPECT_NE(outside->err.find("/var"), std::string::npos);
  EXPECT_EQ(outside->out, "x\netc\n");
  auto read = session->read_file(kUser, "/var/lib/dpkg/status");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::Denied);
}

}  // namespace
}  // namespace caisson::test
