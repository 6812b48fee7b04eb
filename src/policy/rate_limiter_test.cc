#include "policy/rate_limiter.h"

#include <gtest/gtest.h>

#include "policy/capability.h"

namespace caisson::policy {
namespace {

constexpr TimePoint kStart{};

int take_all(RateLimiter& limiter, TimePoint now, int tries) {
  int taken = 0;
  for (int i = 0; i < tries; ++i) taken += limiter.take(now) ? 1 : 0;
  return taken;
}

TEST(RateLimiter, NoMoreThanTheLimitAtOnce) {
  RateLimiter limiter(60, kStart);
  EXPECT_EQ(take_all(limiter, kStart, 1000), 60);
  EXPECT_FALSE(limiter.take(kStart + milliseconds(999)));
  EXPECT_EQ(limiter.wait(kStart + milliseconds(999)), milliseconds(1));
  EXPECT_TRUE(limiter.take(kStart + seconds(1)));
  EXPECT_FALSE(limiter.take(kStart + seconds(1)));
}

TEST(RateLimiter, LongRunKeepsTheRateExactly) {
  RateLimiter limiter(7, kStart);
  int taken = 0;
  for (int ms = 0; ms <= 600'000; ms += 100)
    taken += limiter.take(kStart + milliseconds(ms)) ? 1 : 0;
  EXPECT_EQ(taken, 7 + 70);
}

TEST(RateLimiter, ALongPauseFillsTheBucketOnlyOnce) {
  RateLimiter limiter(kRateLimitPerMinMax, kStart);
  EXPECT_TRUE(limiter.take(kStart));
  RateLimiter small(2, kStart);
  EXPECT_EQ(take_all(small, kStart, 10), 2);
  EXPECT_EQ(take_all(small, kStart + std::chrono::hours(24 * 365), 10), 2);
}

TEST(RateLimiter, TimeThatRunsBackwardsGivesNothing) {
  RateLimiter limiter(1, kStart + seconds(100));
  EXPECT_TRUE(limiter.take(kStart + seconds(100)));
  EXPECT_FALSE(limiter.take(kStart));
  EXPECT_FALSE(limiter.take(kStart + seconds(100)));
  EXPECT_TRUE(limiter.take(kStart + seconds(160)));
}

TEST(RateLimiter, ALimitBelowOneLetsNothingPass) {
  RateLimiter limiter(-5, kStart);
  EXPECT_FALSE(limiter.take(kStart + seconds(1000)));
  EXPECT_EQ(limiter.wait(kStart), nanoseconds::max());
}

}  // namespace
}  // namespace caisson::policy
