#include "cli/summary.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <csignal>

namespace caisson::cli {
namespace {

using engine::EndReason;
using Lines = std::vector<std::string>;

wire::ExitedBody exited(int code, int signal = 0, std::uint32_t flags = 0) {
  wire::ExitedBody body{};
  body.code = code;
  body.signal = signal;
  body.flags = flags;
  return body;
}

RunReport ended(std::optional<wire::ExitedBody> body, EndReason reason = EndReason::Destroyed) {
  RunReport report;
  report.sandbox_id = "abcdefghijklmnopqrstuvwxyz";
  report.exited = body;
  report.status.end = reason;
  report.timeout = milliseconds(60'000);
  report.duration = milliseconds(234);
  return report;
}

TEST(SummaryText, IsTheContractsLine) {
  RunReport report = ended(exited(0));
  report.status.usage.cpu_time_us = 180'000;
  report.status.usage.memory_peak_bytes = 23'488'102;
  EXPECT_EQ(summary_text(report),
            "[sandbox] finished  exit=0  duration=234ms  cpu=0.18s  mem=22.4MiB");
}

// Without a control group the numbers are those of the process itself.
TEST(SummaryText, FallsBackToWhatTheProcessUsed) {
  wire::ExitedBody body = exited(3);
  body.user_us = 1'000'000;
  body.system_us = 250'000;
  body.peak_rss_kib = 2048;
  EXPECT_EQ(summary_text(ended(body)),
            "[sandbox] finished  exit=3  duration=234ms  cpu=1.25s  mem=2.0MiB");
  EXPECT_EQ(summary_text(ended(std::nullopt, EndReason::InitDied)),
            "[sandbox] finished  exit=125  duration=234ms  cpu=0.00s  mem=0.0MiB");
}

TEST(ExitStatus, Table) {
  struct Case {
    RunReport report;
    int status;
  };
  RunReport closed = ended(std::nullopt);
  closed.closed_output = "standard output";
  RunReport closed_late = ended(exited(4));
  closed_late.closed_output = "standard output";
  const Case cases[] = {
      {ended(exited(0)), 0},
      {ended(exited(255)), 255},
      {ended(exited(256 + 7)), 7},
      {ended(exited(0, SIGSEGV)), 128 + SIGSEGV},
      {ended(exited(0, SIGKILL, wire::kExitTimedOut)), 124},
      {ended(exited(0, 0, wire::kExitTimedOut)), 124},
      {ended(std::nullopt, EndReason::Life), 124},
      {ended(exited(0, SIGKILL, wire::kExitOomKilled)), 137},
      {ended(std::nullopt, EndReason::CpuTime), 137},
      {ended(std::nullopt, EndReason::OutOfMemory), 137},
      {ended(std::nullopt, EndReason::InitDied), 125},
      {ended(std::nullopt, EndReason::Destroyed), 125},
      {closed, 128 + SIGPIPE},
      {closed_late, 4},
  };
  for (const Case& one : cases)
    EXPECT_EQ(exit_status(one.report), one.status) << summary_json(one.report);
}

TEST(Breaches, AQuietRunHasNone) {
  EXPECT_EQ(breaches(ended(exited(0))), Lines{});
  EXPECT_EQ(breaches(ended(exited(1))), Lines{});
}

TEST(Breaches, EachNamesTheLimitItsValueAndTheUse) {
  RunReport report = ended(exited(0, SIGKILL, wire::kExitTimedOut));
  report.timeout = milliseconds(1500);
  report.duration = milliseconds(1623);
  EXPECT_EQ(breaches(report), Lines{"time limit exceeded: limit is 1.5 s, used 1.6 s"});

  report = ended(std::nullopt, EndReason::CpuTime);
  report.limits.cpu_time_us = 2'000'000;
  report.status.usage.cpu_time_us = 2'010'000;
  EXPECT_EQ(breaches(report), Lines{"CPU limit exceeded: limit is 2.0 s, used 2.01 s"});

  report = ended(exited(0, SIGKILL));
  report.limits.memory_bytes = 64ULL << 20U;
  report.status.usage.memory_peak_bytes = 64ULL << 20U;
  report.status.usage.oom_kills = 2;
  EXPECT_EQ(breaches(report),
            Lines{"memory limit exceeded: limit is 64.0 MiB, peak 64.0 MiB; 2 process(es) killed"});

  report = ended(std::nullopt, EndReason::InitDied);
  report.status.detail = "mount: EPERM";
  EXPECT_EQ(breaches(report), Lines{"the sandbox ended unexpectedly: mount: EPERM"});

  report = ended(std::nullopt);
  report.closed_output = "standard output";
  EXPECT_EQ(breaches(report), Lines{"nobody reads standard output any more: ended"});
}

TEST(Breaches, AllThatHappenedAreSaid) {
  RunReport report = ended(exited(0, SIGKILL, wire::kExitTimedOut | wire::kExitOomKilled));
  EXPECT_EQ(breaches(report).size(), 2U);
}

// Programs say "Operation not permitted" and no more: the reader gets a hint, but only when it may
// be the reason.
TEST(Breaches, ARefusedSpawnIsHintedAtOnlyAfterAFailure) {
  RunReport report = ended(exited(1));
  report.no_spawn = true;
  ASSERT_EQ(breaches(report).size(), 1U);
  EXPECT_NE(breaches(report)[0].find("spawn_subprocess"), std::string::npos);
  report.exited = exited(0);
  EXPECT_EQ(breaches(report), Lines{});
}

TEST(SummaryJson, HasEveryFieldAndParses) {
  RunReport report = ended(exited(0, SIGKILL, wire::kExitTimedOut));
  report.status.usage.cpu_time_us = 500'000;
  boost::json::value json = boost::json::parse(summary_json(report));
  EXPECT_EQ(json.at("sandbox_id").as_string(), report.sandbox_id);
  EXPECT_EQ(json.at("exit_code").as_int64(), 124);
  EXPECT_EQ(json.at("signal").as_int64(), SIGKILL);
  EXPECT_EQ(json.at("duration_ms").as_int64(), 234);
  EXPECT_DOUBLE_EQ(json.at("cpu_seconds").as_double(), 0.5);
  EXPECT_TRUE(json.at("timed_out").as_bool());
  EXPECT_FALSE(json.at("oom_killed").as_bool());
  EXPECT_EQ(json.at("messages").as_array().size(), 1U);
  json = boost::json::parse(summary_json(ended(exited(0))));
  EXPECT_TRUE(json.at("signal").is_null());
  EXPECT_EQ(json.at("end").as_string(), "destroyed");
  EXPECT_TRUE(json.at("messages").as_array().empty());
}

// What init says of its own failure comes from the other side of the wall.
TEST(SummaryJson, HostileTextStaysAString) {
  RunReport report = ended(std::nullopt, EndReason::InitDied);
  report.status.detail = "\", \"exit_code\": 0, \"x\": \"\n\x1b[2J\x01\\";
  const boost::json::value json = boost::json::parse(summary_json(report));
  EXPECT_EQ(json.at("exit_code").as_int64(), 125);
  EXPECT_EQ(summary_json(report).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace caisson::cli
