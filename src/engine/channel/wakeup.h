// engine/channel/wakeup.h — one coroutine waits, somebody on the same thread wakes it.
//
// A wake that comes before the wait is not lost. A deadline and Asio's own cancellation end the
// wait too, and the waiter learns which of the three it was.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>

#include "base/clock.h"

namespace caisson::engine {

enum class Wake : unsigned char { Woken, TimedOut, Cancelled };

class Wakeup {
 public:
  explicit Wakeup(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  void wake() {
    woken_ = true;
    timer_.cancel();
  }

  boost::asio::awaitable<Wake> wait(std::optional<TimePoint> deadline = std::nullopt) {
    if (!woken_) {
      timer_.expires_at(deadline.value_or(TimePoint::max()));
      boost::system::error_code failed;
      co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, failed));
      if (!woken_) co_return failed ? Wake::Cancelled : Wake::TimedOut;
    }
    woken_ = false;
    co_return Wake::Woken;
  }

 private:
  boost::asio::steady_timer timer_;
  bool woken_ = false;
};

}  // namespace caisson::engine
