// The library's contract: SandboxManager and its friends, by the names a program uses.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "policy/capability_parser.h"
#include "policy/egress.h"
#include "policy/filesystem.h"
#include "policy/resource_monitor.h"
#include "tests/security/host_view.h"
#include "tests/support/box.h"

namespace caisson::test {
namespace {

using policy::CapabilityDeclaration;
using policy::CapabilityParser;

CapabilityDeclaration capability(const std::string& text) {
  auto parsed = CapabilityParser::from_string(text);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
  return parsed.value_or(CapabilityDeclaration{});
}

// A sandbox of a capability, taken away at the end.
class Made {
 public:
  explicit Made(const CapabilityDeclaration& declared) {
    auto id = manager().create_sandbox(declared);
    EXPECT_TRUE(id) << (id ? "" : id.error().message);
    id_ = id.value_or("");
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() { EXPECT_TRUE(manager().destroy(id_)); }
  [[nodiscard]] const std::string& id() const noexcept { return id_; }

 private:
  std::string id_;
};

TEST(Library, CreateExecuteDestroy) {
  const auto id = manager().create_sandbox(capability("{}\n"));
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_EQ(id->size(), 26U);
  const auto result = manager().execute(*id, {"/bin/sh", "-c", "echo out; echo err >&2; exit 3"});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(result->out, "out\n");
  EXPECT_EQ(result->err, "err\n");
  EXPECT_GT(result->duration_ms, 0);
  EXPECT_GE(result->resource_usage.cpu_seconds, 0);
  EXPECT_GT(result->resource_usage.peak_memory_mb, 0);
  EXPECT_EQ(result->resource_usage.tokens_used, 0);
  EXPECT_EQ(result->resource_usage.cost_usd, 0);
  EXPECT_FALSE(result->timed_out);
  EXPECT_FALSE(result->oom_killed);
  EXPECT_EQ(result->breach, "");
  EXPECT_TRUE(manager().destroy(*id));
  EXPECT_EQ(manager().destroy(*id).error().code, Errc::NotFound);
  EXPECT_EQ(manager().execute(*id, {"/bin/true"}).error().code, Errc::NotFound);
}

TEST(Library, MistakesAreTypedErrors) {
  const Made made(capability("{}\n"));
  EXPECT_EQ(manager().execute(made.id(), {}).error().code, Errc::InvalidArgument);
  EXPECT_EQ(manager().execute(made.id(), {"/no/such"}).error().code, Errc::NotFound);
  EXPECT_EQ(manager().execute(made.id(), {"/etc/passwd"}).error().code, Errc::Denied);
  EXPECT_EQ(manager().execute("no-such-sandbox", {"/bin/true"}).error().code, Errc::NotFound);
  EXPECT_EQ(manager().status("no-such-sandbox").error().code, Errc::NotFound);
  CapabilityDeclaration wrong;
  wrong.resource_limits.max_memory_mb = -1;
  EXPECT_EQ(manager().create_sandbox(wrong).error().code, Errc::InvalidArgument);
  CapabilityDeclaration elsewhere;
  elsewhere.sandbox_tier = policy::SandboxTier::Microvm;
  const auto refused = manager().create_sandbox(elsewhere);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Unsupported) << refused.error().message;
}

TEST(Library, RulesGiveAWayOutAndNothingElse) {
  const Made made(
      capability("network_egress_rules: [{domain: example.com}]\n"
                 "permissions: [spawn_subprocess]\n"));
  const auto result = manager().execute(
      made.id(),
      {"/bin/sh", "-c", "curl -s http://elsewhere.test/ | head -1; getent hosts example.com"});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->out.starts_with("Host not allowed: elsewhere.test\n")) << result->out;
  EXPECT_NE(result->out.find("fd63:6169:7373:6f6e::100"), std::string::npos) << result->out;
}

TEST(Library, OptionsOfACommand) {
  const Made made(capability("permissions: [spawn_subprocess]\n"));
  control::ExecuteOptions options;
  options.env = {"A=1", "HOME=/elsewhere", "A=2"};
  options.input = "from the caller";
  options.workdir = "/usr";
  const auto result =
      manager().execute(made.id(), {"/bin/sh", "-c", "pwd; printenv A HOME; cat"}, options);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->out, "/usr\n2\n/elsewhere\nfrom the caller");
}

TEST(Library, ALimitThatEndsACommandIsAResultWithAReason) {
  {
    const Made made(capability("resource_limits: {max_memory_mb: 40}\n"));
    const auto result = manager().execute(
        made.id(), {"/usr/bin/python3", "-Ic", "held = bytearray(b'x') * (200 << 20)"});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->exit_code, 137);
    EXPECT_TRUE(result->oom_killed);
    EXPECT_EQ(result->breach, "Memory limit exceeded: limit is 40.0 MiB");
  }
  {
    const Made made(capability("resource_limits: {max_cpu_seconds: 0.3}\n"));
    const auto result = manager().execute(made.id(), {"/bin/sh", "-c", "while :; do :; done"});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->exit_code, 137);
    EXPECT_EQ(result->breach, "CPU limit exceeded: 0.3 s used, limit is 0.3 s");
    // The sandbox is over: whoever asks again is told why.
    const auto again = manager().execute(made.id(), {"/bin/true"});
    EXPECT_TRUE(!again || !again->breach.empty());
  }
  {
    const Made made(capability("{}\n"));
    const auto result = manager().execute(made.id(), {"/usr/bin/tail", "-f", "/dev/null"},
                                          within(milliseconds(200)));
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_TRUE(result->timed_out);
    EXPECT_EQ(result->exit_code, 137);
    EXPECT_EQ(result->breach, "Time limit exceeded: limit is 0.2 s");
  }
}

TEST(Library, TokensAndMoneyAreCounted) {
  const Made made(capability("resource_limits: {max_tokens: 1000}\n"));
  const auto monitor = manager().monitor(made.id());
  ASSERT_TRUE(monitor);
  EXPECT_TRUE((*monitor)->record_tokens(1150));
  EXPECT_TRUE((*monitor)->record_cost(0.02));
  const auto [ok, reason] = (*monitor)->check_limits();
  EXPECT_FALSE(ok);
  EXPECT_EQ(reason, "Token limit exceeded: 1150 tokens used, limit is 1000");
  const auto result = manager().execute(made.id(), {"/bin/true"});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->resource_usage.tokens_used, 1150);
  EXPECT_DOUBLE_EQ(result->resource_usage.cost_usd, 0.02);
}

// The names of the contract, each once: their behaviour is tested beside their code.
TEST(Library, TheContractsNames) {
  const std::vector<policy::NetworkEgressRule> rules{{"*.example.com", {443}}};
  EXPECT_TRUE(policy::EgressFilter(rules).is_allowed("https://api.example.com/"));
  EXPECT_FALSE(policy::EgressFilter(rules).is_allowed("https://example.com/"));
  const policy::FilesystemConfig config{policy::FilesystemMode::ReadWrite, {"/data"}};
  EXPECT_TRUE(policy::FilesystemPolicy(config).can_write("/data/x"));
  EXPECT_FALSE(policy::FilesystemPolicy(config).can_write("/etc/x"));
  EXPECT_TRUE(policy::FilesystemPolicy(config).can_read("/etc/x"));
  policy::ResourceMonitor monitor(policy::ResourceLimits{});
  EXPECT_TRUE(monitor.start(Clock::now()));
  EXPECT_TRUE(monitor.stop(Clock::now()));
  EXPECT_TRUE(monitor.check_limits().first);
}

TEST(Library, TheRecordSaysWhatHolds) {
  const Made made(capability("{}\n"));
  const auto record = manager().record(made.id());
  ASSERT_TRUE(record);
  EXPECT_EQ(record->tier, "native");
  EXPECT_GT(record->landlock_abi, 0);
  EXPECT_FALSE(record->seccomp.empty());
  EXPECT_EQ(record->ids, "slot");
  EXPECT_NE(record->groups, "none");
}

TEST(Library, EightThreadsMakeAndTakeAwaySandboxes) {
  constexpr int kThreads = 8;
  constexpr int kEach = 6;
  const CapabilityDeclaration declared = capability("permissions: [spawn_subprocess]\n");
  std::atomic<int> right{0};
  std::vector<std::jthread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      for (int round = 0; round < kEach; ++round) {
        const auto id = manager().create_sandbox(declared);
        if (!id) continue;
        const std::string word = std::to_string(number * 100 + round);
        const auto result = manager().execute(*id, {"/bin/echo", word});
        const bool fine = result && result->out == word + "\n" && manager().destroy(*id);
        right += fine ? 1 : 0;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(right, kThreads * kEach);
  EXPECT_TRUE(manager().list()->empty());
}

TEST(Library, EightThreadsExecuteInOneSandbox) {
  constexpr int kThreads = 8;
  constexpr int kEach = 20;
  const Made made(capability("permissions: [spawn_subprocess]\n"));
  std::atomic<int> right{0};
  std::vector<std::jthread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      for (int round = 0; round < kEach; ++round) {
        control::ExecuteOptions options;
        options.input = std::string(static_cast<std::size_t>(number + 1) * 10'000, 'x');
        const auto result = manager().execute(made.id(), {"/usr/bin/wc", "-c"}, options);
        right += result && result->out == std::to_string(options.input.size()) + "\n" ? 1 : 0;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(right, kThreads * kEach);
}

// When the manager goes, so does everything it made: no sandbox outlives its owner.
TEST(Library, TheManagerTakesItsSandboxesAlong) {
  control::SandboxManager::Options options;
  options.program = caisson_program();
  options.state_dir = state_dir();
  auto own = control::SandboxManager::open(options);
  ASSERT_TRUE(own) << own.error().message;
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) ids.push_back((*own)->create_sandbox(capability("{}\n")).value());
  const engine::HostFeatures host = (*own)->host();
  for (const std::string& id : ids) EXPECT_FALSE(groups_of(host, id).empty());
  own->reset();
  for (const std::string& id : ids) EXPECT_TRUE(groups_of(host, id).empty());
}

// A launcher that was killed is an error for every caller, at once, and not a hang.
TEST(Library, AKilledLauncherIsAnErrorAndTheSandboxEnds) {
  control::SandboxManager::Options options;
  options.program = caisson_program();
  options.state_dir = state_dir();
  auto own = control::SandboxManager::open(options);
  ASSERT_TRUE(own) << own.error().message;
  const std::string id = (*own)->create_sandbox(capability("{}\n")).value();
  const engine::HostFeatures host = (*own)->host();
  ::kill((*own)->launcher_pid(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return members(host, id).empty(); }));
  EXPECT_FALSE((*own)->execute(id, {"/bin/true"}));
  EXPECT_FALSE((*own)->create_sandbox(capability("{}\n")));
  own->reset();
  // The next launcher on this state directory finds what was left on record and takes it away.
  auto next = control::SandboxManager::open(options);
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_EQ(groups_of(host, id), std::vector<std::string>{});
  EXPECT_EQ(text_of(state_dir() + "/launcher/slots").find(id), std::string::npos);
}

}  // namespace
}  // namespace caisson::test
