#include "egress/wire/token_bucket.h"

#include <gtest/gtest.h>

#include <string>

namespace caisson::egress {
namespace {

policy::NetworkEgressRule rule(std::string domain, std::int64_t per_min) {
  policy::NetworkEgressRule out;
  out.domain = std::move(domain);
  out.rate_limit_per_min = per_min;
  return out;
}

const TimePoint kStart = TimePoint(seconds(1000));

TEST(RuleBuckets, EachRuleHasItsOwn) {
  const Rules rules = *Rules::compile({rule("a.example", 2), rule("b.example", 1)});
  RuleBuckets buckets(rules, kStart);
  EXPECT_TRUE(buckets.take(0, kStart));
  EXPECT_TRUE(buckets.take(0, kStart));
  EXPECT_FALSE(buckets.take(0, kStart));
  EXPECT_EQ(buckets.wait(0, kStart), seconds(30));
  EXPECT_TRUE(buckets.take(1, kStart));
  EXPECT_TRUE(buckets.take(0, kStart + seconds(30)));
  EXPECT_FALSE(buckets.take(0, kStart + seconds(30)));
  EXPECT_FALSE(buckets.take(0, kStart));  // time does not run backwards
  EXPECT_FALSE(buckets.take(2, kStart));
  EXPECT_EQ(buckets.wait(2, kStart), nanoseconds::max());
}

TEST(RuleBuckets, AChangeElsewhereRefillsNothing) {
  const Rules before = *Rules::compile({rule("a.example", 1), rule("b.example", 1)});
  const Rules after = *Rules::compile({rule("c.example", 1), rule("b.example", 1)});
  RuleBuckets old(before, kStart);
  EXPECT_TRUE(old.take(0, kStart));
  EXPECT_TRUE(old.take(1, kStart));
  RuleBuckets fresh = old.after_change(before, after, kStart);
  EXPECT_TRUE(fresh.take(0, kStart));
  EXPECT_FALSE(fresh.take(1, kStart));
  EXPECT_FALSE(fresh.take(2, kStart));
}

}  // namespace
}  // namespace caisson::egress
