#include "doors/shared/budget.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

namespace caisson::doors {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kMib = 1024UL * 1024;

class BudgetTest : public testing::Test {
 protected:
  // The answer of a resize that is over after `turns` of the loop, or nothing while it waits.
  std::shared_ptr<std::optional<Result<void>>> begin(Budget::Hold& hold, std::size_t bytes) {
    auto out = std::make_shared<std::optional<Result<void>>>();
    auto work = [](Budget::Hold& one, std::size_t wanted,
                   std::shared_ptr<std::optional<Result<void>>> into) -> awaitable<void> {
      *into = co_await one.resize(wanted);
    };
    asio::co_spawn(io_, work(hold, bytes, out), asio::detached);
    turn();
    return out;
  }
  void turn() {
    io_.restart();
    io_.poll();
  }
  bool taken(Budget::Hold& hold, std::size_t bytes) {
    const auto out = begin(hold, bytes);
    return out->has_value() && (*out)->has_value();
  }

  asio::io_context io_;
  Budget budget_{10 * kMib, 4 * kMib, milliseconds(60'000)};
};

TEST_F(BudgetTest, OneTenantCannotHaveItAll) {
  const auto one = budget_.open("red");
  const auto two = budget_.open("red");
  const auto other = budget_.open("blue");
  EXPECT_TRUE(taken(*one, 3 * kMib));
  EXPECT_EQ(two->room(), kMib);
  const auto waits = begin(*two, 2 * kMib);
  EXPECT_FALSE(waits->has_value());
  EXPECT_TRUE(taken(*other, 4 * kMib));
  EXPECT_EQ(budget_.held(), 7 * kMib);
  one->force(0);
  turn();
  ASSERT_TRUE(waits->has_value());
  EXPECT_TRUE((*waits)->has_value());
  EXPECT_EQ(budget_.held(), 6 * kMib);
}

TEST_F(BudgetTest, AllTogetherHaveTheirMost) {
  std::vector<std::unique_ptr<Budget::Hold>> holds;
  for (const char* tenant : {"a", "b"}) {
    holds.push_back(budget_.open(tenant));
    EXPECT_TRUE(taken(*holds.back(), 4 * kMib));
  }
  const auto last = budget_.open("c");
  const auto waits = begin(*last, 3 * kMib);
  EXPECT_FALSE(waits->has_value());
  // What is small is had at any time.
  const auto small = budget_.open("a");
  EXPECT_TRUE(taken(*small, kUncountedBytesMax));
  holds.pop_back();
  turn();
  EXPECT_TRUE(waits->has_value());
}

TEST_F(BudgetTest, PatienceEnds) {
  Budget hasty(kMib, kMib, milliseconds(0));
  const auto one = hasty.open("red");
  const auto two = hasty.open("blue");
  EXPECT_TRUE(taken(*one, kMib));
  const auto refused = begin(*two, kMib);
  ASSERT_TRUE(refused->has_value());
  EXPECT_EQ((*refused)->error().code, Errc::Exhausted);
  EXPECT_EQ(two->bytes(), 0U);
}

TEST_F(BudgetTest, WhatIsThereAlreadyIsCountedAnyway) {
  const auto one = budget_.open("red");
  one->force(20 * kMib);
  EXPECT_EQ(budget_.held(), 20 * kMib);
  EXPECT_EQ(one->room(), 0U);
  EXPECT_TRUE(taken(*one, 5 * kMib)) << "less is always possible";
  EXPECT_EQ(budget_.held(), 5 * kMib);
}

TEST_F(BudgetTest, WhatCannotBeHadAgainMayOverdraw) {
  const auto one = budget_.open("red");
  const auto two = budget_.open("red");
  EXPECT_TRUE(taken(*one, 4 * kMib));
  EXPECT_TRUE(two->overdraw(4 * kMib));
  const auto three = budget_.open("red");
  EXPECT_FALSE(three->overdraw(kMib));
  EXPECT_EQ(three->room(2), 0U);
}

// Who gives back wakes one, and that one the next: not all of them each time.
TEST_F(BudgetTest, TheyAreWokenInTurn) {
  const auto one = budget_.open("red");
  EXPECT_TRUE(taken(*one, 4 * kMib));
  std::vector<std::unique_ptr<Budget::Hold>> holds;
  std::vector<std::shared_ptr<std::optional<Result<void>>>> waits;
  for (const std::size_t wanted : {3UL, 2UL, 1UL, 1UL, 3UL}) {
    holds.push_back(budget_.open("red"));
    waits.push_back(begin(*holds.back(), wanted * kMib));
  }
  const auto there = [&waits] {
    std::string out;
    for (const auto& one_wait : waits) out += one_wait->has_value() ? 'x' : '.';
    return out;
  };
  EXPECT_EQ(there(), ".....");
  one->force(2 * kMib);
  // The first wants more than there is; the second has it all.
  io_.restart();
  EXPECT_LE(io_.poll(), 2U) << "one resumes, and nobody else";
  EXPECT_EQ(there(), ".x...");
  holds[1]->force(0);
  turn();
  EXPECT_EQ(there(), ".xxx.") << "each passes on what he leaves";
  one->force(0);
  holds[2]->force(0);
  holds[3]->force(0);
  turn();
  EXPECT_EQ(there(), "xxxx.");
  holds[0]->force(0);
  turn();
  EXPECT_EQ(there(), "xxxxx");
}

TEST_F(BudgetTest, ATenantHasSoManyWaiters) {
  const auto one = budget_.open("red");
  EXPECT_TRUE(taken(*one, 4 * kMib));
  std::vector<std::unique_ptr<Budget::Hold>> holds;
  std::vector<std::shared_ptr<std::optional<Result<void>>>> waits;
  for (std::size_t i = 0; i < kWaitersPerTenantMax; ++i) {
    holds.push_back(budget_.open("red"));
    waits.push_back(begin(*holds.back(), kMib));
    EXPECT_FALSE(waits.back()->has_value());
  }
  const auto last = budget_.open("red");
  const auto refused = begin(*last, kMib);
  ASSERT_TRUE(refused->has_value());
  EXPECT_EQ((*refused)->error().code, Errc::Exhausted);
  const auto other = budget_.open("blue");
  EXPECT_TRUE(taken(*other, 4 * kMib)) << "another's queue is none of his";
}

TEST(Budget, AHoldMayOutliveIt) {
  auto budget = std::make_unique<Budget>(kMib, kMib, milliseconds(0));
  const auto hold = budget->open("red");
  hold->force(kMib);
  budget.reset();
  EXPECT_EQ(hold->room(), 0U);
}

}  // namespace
}  // namespace caisson::doors
