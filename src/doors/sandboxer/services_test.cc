#include "doors/sandboxer/services.h"

#include <gtest/gtest.h>

namespace caisson::sandboxer {
namespace {

TEST(ServicesTest, OnlySoManyStreamsAreOpen) {
  Streams streams(3, 2);
  auto one = streams.enter("a");
  {
    auto two = streams.enter("a");
    ASSERT_TRUE(one && two);
    EXPECT_EQ(streams.enter("a").error().code, Errc::Exhausted);
    auto three = streams.enter("b");
    ASSERT_TRUE(three);
    EXPECT_EQ(streams.enter("c").error().code, Errc::Exhausted);
    EXPECT_EQ(streams.open(), 3U);
  }
  EXPECT_EQ(streams.open(), 1U);
  EXPECT_TRUE(streams.enter("a"));
}

TEST(ServicesTest, AVisitBeginsOnce) {
  Visits visits;
  const TimePoint now = Clock::now();
  EXPECT_TRUE(visits.begin("a", now));
  EXPECT_FALSE(visits.begin("a", now));
  EXPECT_TRUE(visits.begin("b", now));
  // It goes on while somebody comes.
  EXPECT_FALSE(visits.begin("a", now + Visits::kVisitLife));
  EXPECT_FALSE(visits.begin("a", now + 2 * Visits::kVisitLife));
  EXPECT_TRUE(visits.begin("b", now + 2 * Visits::kVisitLife));
  visits.forget("a");
  EXPECT_TRUE(visits.begin("a", now));
}

TEST(ServicesTest, VisitsAreNotWithoutABound) {
  Visits visits;
  for (std::size_t i = 0; i < 3 * Visits::kVisitsMax; ++i)
    (void)visits.begin(std::to_string(i), Clock::now());
  EXPECT_LE(visits.size(), Visits::kVisitsMax);
}

TEST(ServicesTest, TheDoorItselfIsNoAdmin) {
  const auto caller = own_caller("t");
  EXPECT_EQ(caller.tenant, "t");
  EXPECT_TRUE(caller.may(store::Scope::Use));
  EXPECT_FALSE(caller.may(store::Scope::Admin));
}

}  // namespace
}  // namespace caisson::sandboxer
