#include "cli/run_options.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/cli.h"
#include "sys/temp_dir_test.h"

namespace caisson::cli {
namespace {

struct Parsed {
  std::optional<RunOptions> options;
  int status = -1;
  std::string complaint;
};

Parsed parse_words(std::vector<std::string> words) {
  words.insert(words.begin(), "run");
  std::vector<char*> args;
  for (std::string& word : words) args.push_back(word.data());
  args.push_back(nullptr);
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  auto parsed = parse_run_options(std::span(args.data(), words.size()));
  Parsed result;
  result.complaint = testing::internal::GetCapturedStderr();
  (void)testing::internal::GetCapturedStdout();
  if (parsed) {
    result.options = std::move(*parsed);
  } else {
    result.status = parsed.error();
  }
  return result;
}

RunOptions options_of(const std::vector<std::string>& words) {
  Parsed parsed = parse_words(words);
  EXPECT_TRUE(parsed.options) << parsed.complaint;
  return parsed.options ? std::move(*parsed.options) : RunOptions{};
}

// Each mistake is one line that names the flag, and status 2; nothing runs.
TEST(RunOptions, MistakesNameTheirFlag) {
  struct Case {
    std::vector<std::string> words;
    const char* names;
  };
  const Case cases[] = {
      {{}, "no command"},
      {{"--"}, "no command"},
      {{"--memory", "much", "--", "true"}, "--memory"},
      {{"--memory", "0", "--", "true"}, "--memory"},
      {{"--memory", "-1", "--", "true"}, "--memory"},
      {{"--disk", "unlimited", "--", "true"}, "--disk"},
      {{"--cpus", "0", "--", "true"}, "--cpus"},
      {{"--cpus", "nan", "--", "true"}, "--cpus"},
      {{"--cpus", "inf", "--", "true"}, "--cpus"},
      {{"--cpus", "1x", "--", "true"}, "--cpus"},
      {{"--cpus", "5000", "--", "true"}, "--cpus"},
      {{"--pids", "0", "--", "true"}, "--pids"},
      {{"--pids", "1.5", "--", "true"}, "--pids"},
      {{"--pids", "99999999999", "--", "true"}, "--pids"},
      {{"--timeout", "0", "--", "true"}, "--timeout"},
      {{"--timeout", "soon", "--", "true"}, "--timeout"},
      {{"--cpu-seconds", "0", "--", "true"}, "--cpu-seconds"},
      {{"--user", "65535", "--", "true"}, "--user"},
      {{"--user", "0:65535", "--", "true"}, "--user"},
      {{"--user", "root", "--", "true"}, "--user"},
      {{"--user", "1:", "--", "true"}, "--user"},
      {{"--user", "4294967296", "--", "true"}, "--user"},
      {{"--tier", "docker", "--", "true"}, "--tier"},
      {{"--workdir", "relative", "--", "true"}, "--workdir"},
      {{"--workdir", "/a/../b", "--", "true"}, "--workdir"},
      {{"--allow", "http://x/", "--", "true"}, "--allow"},
      {{"--allow", "x:99999", "--", "true"}, "--allow"},
      {{"--env", "=x", "--", "true"}, "--env"},
      {{"--env", "SURELY_NOT_SET_HERE", "--", "true"}, "--env"},
      {{"--summary", "xml", "--", "true"}, "--summary"},
      {{"--no-such-flag", "--", "true"}, "--no-such-flag"},
      {{"--config", "/surely/not/there.yaml", "--", "true"}, "/surely/not/there.yaml"},
      {{"--", ""}, "empty"},
      {{"--", "a;b"}, "metacharacter"},
      {{"--", "$(id)"}, "metacharacter"},
  };
  for (const Case& one : cases) {
    const Parsed parsed = parse_words(one.words);
    EXPECT_EQ(parsed.status, kExitUsage) << one.names;
    EXPECT_NE(parsed.complaint.find(one.names), std::string::npos) << parsed.complaint;
    EXPECT_TRUE(parsed.complaint.starts_with("caisson run: ")) << parsed.complaint;
    EXPECT_EQ(std::ranges::count(parsed.complaint, '\n'), 1) << parsed.complaint;
  }
}

// A secret that stands in the caller's environment must not slip in because somebody named it.
TEST(RunOptions, SecretsDoNotPassByName) {
  for (const char* name : {"MY_API_KEY", "GITHUB_TOKEN", "AWS_PROFILE", "DB_PASSWORD"}) {
    const Parsed parsed = parse_words({"--env", name, "--", "true"});
    EXPECT_EQ(parsed.status, kExitUsage) << name;
    EXPECT_NE(parsed.complaint.find("looks like a secret"), std::string::npos) << parsed.complaint;
  }
  EXPECT_EQ(options_of({"--env", "MY_API_KEY=meant", "--", "true"}).environment,
            std::vector<std::string>{"MY_API_KEY=meant"});
}

TEST(RunOptions, WithoutFlagsNothingIsDeclared) {
  const RunOptions options = options_of({"--", "true"});
  EXPECT_EQ(options.command, std::vector<std::string>{"true"});
  EXPECT_EQ(options.timeout, milliseconds(60'000));
  EXPECT_FALSE(options.memory_bytes || options.disk_bytes || options.cpu_millis ||
               options.cpu_time_us || options.processes || options.uid || options.gid ||
               options.workdir || options.capability || options.tier);
  EXPECT_TRUE(options.environment.empty() && options.writable.empty() && options.allow.empty());
  EXPECT_TRUE(options.show_folder);
  EXPECT_FALSE(options.dry_run);
  EXPECT_EQ(options.summary, Summary::Text);
}

// Behind -- every word is the command's, also those that look like ours.
TEST(RunOptions, TheCommandKeepsItsOwnWords) {
  const std::vector<std::string> command{"sh", "-c", "echo $HOME; x", "--memory", "1", "--",
                                         "-q", ""};
  std::vector<std::string> words{"--memory", "64m", "--"};
  words.insert(words.end(), command.begin(), command.end());
  const RunOptions options = options_of(words);
  EXPECT_EQ(options.command, command);
  EXPECT_EQ(options.memory_bytes, 64ULL << 20U);
  EXPECT_EQ(options.summary, Summary::Text);
}

TEST(RunOptions, EveryFlag) {
  const RunOptions options = options_of(
      {"--timeout",   "1.5",       "--memory",      "1g",        "--disk",      "10m",
       "--cpus",      "0.5",       "--pids",        "12",        "--env",       "A=1",
       "--env",       "B=x=y",     "--user",        "7:8",       "--workdir",   "//w/./x",
       "--writable",  "/tmp/a",    "--writable",    "/tmp/b",    "--allow",     "a.example:443",
       "--no-folder", "--summary", "json",          "--dry-run", "--state-dir", "/s",
       "--tier",      "native",    "--cpu-seconds", "2",         "--",          "true"});
  EXPECT_EQ(options.timeout, milliseconds(1500));
  EXPECT_EQ(options.memory_bytes, 1ULL << 30U);
  EXPECT_EQ(options.disk_bytes, 10ULL << 20U);
  EXPECT_EQ(options.cpu_millis, 500U);
  EXPECT_EQ(options.cpu_time_us, 2'000'000U);
  EXPECT_EQ(options.processes, 12U);
  EXPECT_EQ(options.environment, (std::vector<std::string>{"A=1", "B=x=y"}));
  EXPECT_EQ(options.uid, 7U);
  EXPECT_EQ(options.gid, 8U);
  EXPECT_EQ(options.workdir, "/w/x");
  EXPECT_EQ(options.writable, (std::vector<std::string>{"/tmp/a", "/tmp/b"}));
  ASSERT_EQ(options.allow.size(), 1U);
  EXPECT_EQ(options.allow[0].domain, "a.example");
  EXPECT_FALSE(options.show_folder);
  EXPECT_TRUE(options.dry_run);
  EXPECT_EQ(options.summary, Summary::Json);
  EXPECT_EQ(options.state_dir, "/s");
}

// 0 means "no limit" further in: what was asked for must not become that by rounding.
TEST(RunOptions, SmallLimitsStayLimits) {
  EXPECT_EQ(options_of({"--cpu-seconds", "0.0000001", "--", "true"}).cpu_time_us, 1U);
  EXPECT_EQ(options_of({"--timeout", "0.0000001", "--", "true"}).timeout, milliseconds(1));
  EXPECT_EQ(options_of({"--memory", "1", "--", "true"}).memory_bytes, 1U);
  EXPECT_EQ(options_of({"--memory", "unlimited", "--", "true"}).memory_bytes, 0U);
}

TEST(RunOptions, OneIdIsUserAndGroup) {
  const RunOptions options = options_of({"--user", "0", "--", "true"});
  EXPECT_EQ(options.uid, 0U);
  EXPECT_EQ(options.gid, 0U);
}

TEST(RunOptions, ACapabilityFileIsRead) {
  const sys::TempDir dir;
  dir.write("cap.yaml", "resource_limits:\n  max_memory_mb: 64\n");
  const RunOptions options = options_of({"--config", dir.path("cap.yaml"), "--", "true"});
  ASSERT_TRUE(options.capability);
  EXPECT_EQ(options.capability->resource_limits.max_memory_mb, 64);
  dir.write("bad.yaml", "no_such_field: 1\n");
  EXPECT_EQ(parse_words({"--config", dir.path("bad.yaml"), "--", "true"}).status, kExitUsage);
}

TEST(RunOptions, HelpAndVersionAreNoMistake) {
  EXPECT_EQ(parse_words({"--help"}).status, kExitOk);
  EXPECT_EQ(parse_words({"--version"}).status, kExitOk);
}

}  // namespace
}  // namespace caisson::cli
