#include "control/events.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

namespace caisson::control {
namespace {

class EventsTest : public testing::Test {
 protected:
  template <class T>
  std::shared_ptr<std::optional<T>> begin(awaitable<T> work) {
    auto value = std::make_shared<std::optional<T>>();
    boost::asio::co_spawn(context_, std::move(work),
                          [value](const std::exception_ptr&, T result) { *value = result; });
    return value;
  }
  void settle() {
    context_.restart();
    while (context_.poll() > 0) {
    }
  }
  Result<Event> next(EventStream& stream) {
    const auto value = begin(stream.next());
    settle();
    return value->has_value() ? **value : failure(Errc::Busy, "nothing yet");
  }
  boost::asio::io_context context_{1};
  EventRing ring_{context_.get_executor()};
};

TEST_F(EventsTest, AFollowerSeesOnlyHisOwn) {
  auto mine = ring_.follow({"a", std::nullopt}, 0);
  auto one = ring_.follow({"a", "s2"}, 0);
  auto all = ring_.follow({}, 0);
  ring_.add("x", "b", "s1");
  ring_.add("y", "a", "s1");
  ring_.add("z", "a", "s2");
  EXPECT_EQ(next(**mine)->type, "y");
  EXPECT_EQ(next(**mine)->type, "z");
  EXPECT_EQ(next(**one)->type, "z");
  EXPECT_EQ(next(**all)->type, "x");
}

TEST_F(EventsTest, AWaitingFollowerIsWoken) {
  auto stream = ring_.follow({}, 0);
  const auto value = begin((*stream)->next());
  settle();
  EXPECT_FALSE(value->has_value());
  ring_.add("x", "a", "s");
  settle();
  ASSERT_TRUE(value->has_value());
  EXPECT_EQ((**value)->type, "x");
}

TEST_F(EventsTest, ComesBackToWhereHeWas) {
  for (int i = 0; i < 5; ++i) ring_.add(std::to_string(i), "a", "s");
  auto stream = ring_.follow({}, 3);
  EXPECT_EQ(next(**stream)->sequence, 4U);
  // A number that is not there yet means from now on.
  auto late = ring_.follow({}, 99);
  ring_.add("new", "a", "s");
  EXPECT_EQ(next(**late)->type, "new");
}

TEST_F(EventsTest, ASlowFollowerHearsThatHeLostSome) {
  auto stream = ring_.follow({}, 0);
  for (std::size_t i = 0; i <= kEventsMax; ++i) ring_.add("x", "a", "s");
  EXPECT_EQ(next(**stream).error().code, Errc::Gone);
  // Who comes now begins with the oldest that is kept.
  auto again = ring_.follow({}, 0);
  EXPECT_EQ(next(**again)->sequence, 2U);
}

TEST_F(EventsTest, FollowersHaveALimit) {
  std::vector<std::unique_ptr<EventStream>> all;
  for (std::size_t i = 0; i < kFollowersMax; ++i) all.push_back(*ring_.follow({}, 0));
  EXPECT_EQ(ring_.follow({}, 0).error().code, Errc::Exhausted);
  all.pop_back();
  EXPECT_TRUE(ring_.follow({}, 0));
}

TEST_F(EventsTest, TheEndIsSaid) {
  auto stream = ring_.follow({}, 0);
  const auto value = begin((*stream)->next());
  settle();
  ring_.close();
  settle();
  EXPECT_EQ((*value)->error().code, Errc::Gone);
}

}  // namespace
}  // namespace caisson::control
