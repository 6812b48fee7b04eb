// A loop of its own for a test: coroutines run on the test's thread, and nowhere else.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace caisson::test {

class OwnLoop {
 protected:
  // Starts it; the value is there once until() has seen it.
  template <class T>
  std::shared_ptr<std::optional<T>> begin(boost::asio::awaitable<T> work) {
    auto value = std::make_shared<std::optional<T>>();
    boost::asio::co_spawn(context_, std::move(work),
                          [value](const std::exception_ptr& bug, T result) {
                            EXPECT_FALSE(bug);
                            *value = std::move(result);
                          });
    return value;
  }
  template <class Condition>
  void until(Condition condition) {
    const TimePoint limit = Clock::now() + seconds(20);
    while (!condition()) {
      context_.restart();
      context_.run_one_for(milliseconds(100));
      if (Clock::now() > limit) FAIL() << "it did not happen in time";
    }
  }
  template <class T>
  T run(boost::asio::awaitable<T> work) {
    const auto value = begin(std::move(work));
    until([&] { return value->has_value(); });
    return *std::move(*value);
  }
  // Everything that can happen without waiting has happened.
  void settle() {
    for (int i = 0; i < 20; ++i) {
      context_.restart();
      while (context_.poll() > 0) {
      }
    }
  }

  boost::asio::io_context context_{1};
};

}  // namespace caisson::test
