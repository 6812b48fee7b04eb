#include "policy/resource_monitor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>
#include <vector>

namespace caisson::policy {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

constexpr ResourceLimits kLimits = {
    .max_memory_mb = 512, .max_cpu_seconds = 30.0, .max_cost_usd = 0.10, .max_tokens = 1000};

std::string reason_of(const ResourceMonitor& monitor) {
  const auto [ok, reason] = monitor.check_limits();
  EXPECT_EQ(ok, reason.empty());
  return reason;
}

TEST(ResourceMonitor, NumbersThatAreNoUseAreErrors) {
  ResourceMonitor monitor(kLimits);
  EXPECT_FALSE(monitor.record_tokens(-1));
  EXPECT_FALSE(monitor.record_cost(-0.01));
  EXPECT_FALSE(monitor.record_cost(std::nan("")));
  EXPECT_FALSE(monitor.record_cost(std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(monitor.record_usage(-1, 0));
  EXPECT_FALSE(monitor.record_usage(std::nan(""), 0));
  EXPECT_EQ(monitor.snapshot(), ResourceUsage());
}

TEST(ResourceMonitor, ReasonsNameUseAndLimit) {
  ResourceMonitor tokens(kLimits);
  EXPECT_TRUE(tokens.record_tokens(1000));
  EXPECT_EQ(reason_of(tokens), "");
  EXPECT_TRUE(tokens.record_tokens(150));
  EXPECT_EQ(reason_of(tokens), "Token limit exceeded: 1150 tokens used, limit is 1000");

  ResourceMonitor cost(kLimits);
  EXPECT_TRUE(cost.record_cost(0.12));
  EXPECT_EQ(reason_of(cost), "Cost limit exceeded: $0.1200 spent, limit is $0.1000");

  ResourceMonitor cpu(kLimits);
  EXPECT_TRUE(cpu.record_usage(31.0, 0));
  EXPECT_EQ(reason_of(cpu), "CPU limit exceeded: 31.0 s used, limit is 30.0 s");

  ResourceMonitor memory(kLimits);
  EXPECT_TRUE(memory.record_usage(0, 600 * kMiB));
  EXPECT_EQ(reason_of(memory), "Memory limit exceeded: 600.0 MiB used, limit is 512 MiB");
}

TEST(ResourceMonitor, SeveralReasonsAreAllNamed) {
  ResourceMonitor monitor(kLimits);
  EXPECT_TRUE(monitor.record_tokens(1001));
  EXPECT_TRUE(monitor.record_cost(0.100000001));
  EXPECT_EQ(reason_of(monitor),
            "Token limit exceeded: 1001 tokens used, limit is 1000; "
            "Cost limit exceeded: $0.100000001 spent, limit is $0.1000");
}

TEST(ResourceMonitor, CostsAddUpExactly) {
  ResourceMonitor monitor(kLimits);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(monitor.record_cost(0.01));
  EXPECT_EQ(reason_of(monitor), "");
  ResourceMonitor parts(kLimits);
  EXPECT_TRUE(parts.record_cost(0.07));
  EXPECT_TRUE(parts.record_cost(0.03));
  EXPECT_EQ(reason_of(parts), "");
  EXPECT_TRUE(parts.record_cost(1e-15));  // spent is spent, however little
  EXPECT_NE(reason_of(parts), "");
}

TEST(ResourceMonitor, SumsDoNotWrap) {
  ResourceMonitor monitor(kLimits);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(monitor.record_tokens(std::numeric_limits<std::int64_t>::max()));
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(monitor.record_cost(1e300));
  EXPECT_FALSE(monitor.check_limits().first);
  EXPECT_EQ(monitor.snapshot().tokens_used, std::numeric_limits<std::int64_t>::max());
  EXPECT_GT(monitor.snapshot().cost_usd, 1e9);
}

TEST(ResourceMonitor, SamplesKeepTheirPeak) {
  ResourceMonitor monitor(kLimits);
  EXPECT_TRUE(monitor.record_usage(2.0, 64 * kMiB));
  EXPECT_TRUE(monitor.record_usage(1.0, 32 * kMiB));
  EXPECT_EQ(monitor.snapshot().cpu_seconds, 2.0);
  EXPECT_EQ(monitor.snapshot().peak_memory_mb, 64.0);
}

TEST(ResourceMonitor, StartAndStopMeasureTheTimeTheyAreGiven) {
  ResourceMonitor monitor(kLimits);
  const TimePoint begin{};
  EXPECT_FALSE(monitor.stop(begin));
  EXPECT_TRUE(monitor.start(begin));
  EXPECT_FALSE(monitor.start(begin));
  EXPECT_TRUE(monitor.snapshot().running);
  EXPECT_EQ(monitor.snapshot(begin + seconds(2)).duration, seconds(2));
  EXPECT_TRUE(monitor.stop(begin + seconds(3)));
  EXPECT_TRUE(monitor.start(begin + seconds(10)));
  EXPECT_TRUE(monitor.stop(begin + seconds(11)));
  EXPECT_EQ(monitor.snapshot().duration, seconds(4));
  EXPECT_EQ(to_string(monitor.snapshot()),
            "{running: false, duration_ms: 4000, cpu_seconds: 0.0, peak_memory_mb: 0.0, "
            "tokens_used: 0, cost_usd: 0.0}");
}

TEST(ResourceMonitor, ManyThreadsLoseNothing) {
  ResourceMonitor monitor(kLimits);
  {
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&monitor] {
        for (int i = 0; i < 1000; ++i) {
          EXPECT_TRUE(monitor.record_tokens(1));
          EXPECT_TRUE(monitor.record_cost(0.00001));
          EXPECT_TRUE(monitor.record_usage(0.5, 1024));
          (void)monitor.check_limits();
        }
      });
    }
  }
  EXPECT_EQ(monitor.snapshot().tokens_used, 4000);
  EXPECT_DOUBLE_EQ(monitor.snapshot().cost_usd, 0.04);
}

}  // namespace
}  // namespace caisson::policy
