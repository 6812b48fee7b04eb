// egress/gate/signal.h — one coroutine waits until another says so. What is said stays said.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace caisson::egress {

class Signal {
 public:
  explicit Signal(const boost::asio::any_io_executor& executor)
      : timer_(executor, boost::asio::steady_timer::time_point::max()) {}

  void raise() {
    raised_ = true;
    timer_.cancel();
  }
  [[nodiscard]] bool raised() const noexcept { return raised_; }
  [[nodiscard]] boost::asio::awaitable<void> wait() {
    while (!raised_) {
      boost::system::error_code ec;
      co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ec));
    }
  }

 private:
  boost::asio::steady_timer timer_;
  bool raised_ = false;
};

}  // namespace caisson::egress
