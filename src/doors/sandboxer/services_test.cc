#include "doors/sandboxer/services.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <vector>

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

// One tenant's waiting is no other's.
TEST(ServicesTest, OnlySoManyQuestionsOfATenantAreUnderWay) {
  boost::asio::io_context io;
  Questions questions(io.get_executor());
  std::vector<control::Turns::Turn> turns;
  std::size_t asked = 0;
  const auto ask = [&](std::string tenant) -> awaitable<void> {
    auto turn = co_await questions.ask(tenant);
    if (!turn) co_return;
    ++asked;
    turns.push_back(*std::move(turn));
  };
  for (std::size_t i = 0; i < Questions::kAtOnce + 1; ++i)
    boost::asio::co_spawn(io, ask("a"), boost::asio::detached);
  boost::asio::co_spawn(io, ask("b"), boost::asio::detached);
  while (io.poll_one() > 0) {
  }
  EXPECT_EQ(asked, Questions::kAtOnce + 1);
  turns.erase(turns.begin());
  io.run();
  EXPECT_EQ(asked, Questions::kAtOnce + 2);
}

TEST(ServicesTest, QuestionsDoNotRememberEverybody) {
  boost::asio::io_context io;
  Questions questions(io.get_executor());
  const auto ask = [&](std::string tenant) -> awaitable<void> {
    (void)co_await questions.ask(tenant);
  };
  for (std::size_t i = 0; i < 3 * Questions::kTenantsMax; ++i)
    boost::asio::co_spawn(io, ask(std::to_string(i)), boost::asio::detached);
  io.run();
  EXPECT_LE(questions.tenants(), Questions::kTenantsMax);
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
