#include "cli/samples.h"

#include <gtest/gtest.h>

namespace caisson::cli {
namespace {

TEST(Samples, NoneIsZeroAndOneIsItself) {
  Samples samples;
  EXPECT_EQ(samples.count(), 0U);
  EXPECT_EQ(samples.median(), 0);
  EXPECT_EQ(samples.p99(), 0);
  samples.add(7);
  for (const double value : {samples.min(), samples.median(), samples.p90(), samples.p99()})
    EXPECT_EQ(value, 7);
}

TEST(Samples, OrderDoesNotMatterAndEachAnswerWasMeasured) {
  Samples samples;
  for (int i = 100; i >= 0; --i) samples.add(i * 10.0);
  EXPECT_EQ(samples.count(), 101U);
  EXPECT_EQ(samples.min(), 0);
  EXPECT_EQ(samples.median(), 500);
  EXPECT_EQ(samples.p90(), 900);
  EXPECT_EQ(samples.p99(), 990);
}

TEST(Samples, OneSlowRunDoesNotMoveTheMedian) {
  Samples samples;
  for (const double us : {10.0, 11.0, 12.0, 13.0, 1e9}) samples.add(us);
  EXPECT_EQ(samples.median(), 12);
  EXPECT_LT(samples.p90(), 1e9);
}

}  // namespace
}  // namespace caisson::cli
