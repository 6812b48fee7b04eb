// doors/sandboxer/signal.h — coroutines wait, somebody on the same thread wakes all of them; and
// small queues between a writer that never waits and a reader that may be slow.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/clock.h"

namespace caisson::sandboxer {

using boost::asio::awaitable;

// Nothing is remembered: look at the condition, then wait, in a loop.
class Signal {
 public:
  explicit Signal(const boost::asio::any_io_executor& executor)
      : timer_(executor, boost::asio::steady_timer::time_point::max()) {}
  void wake() { timer_.cancel(); }
  // False when the waiter was cancelled.
  awaitable<bool> wait() {
    boost::system::error_code ec;
    co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ec));
    const auto state = co_await boost::asio::this_coro::cancellation_state;
    co_return state.cancelled() == boost::asio::cancellation_type::none;
  }

 private:
  boost::asio::steady_timer timer_;
};

inline awaitable<void> pause_for(milliseconds time) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, time);
  boost::system::error_code ec;
  co_await timer.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ec));
}

// Texts for one reader. Who does not read in time loses them all, and is told.
class Mailbox {
 public:
  static constexpr std::size_t kTakenBytes = 32UL * 1024;

  Mailbox(const boost::asio::any_io_executor& executor, std::size_t bytes_max)
      : signal_(executor), bytes_max_(bytes_max) {}

  void put(const std::string& text) {
    if (lost_ || closed_) return;
    if (bytes_ + text.size() > bytes_max_) {
      lost_ = true;
      texts_.clear();
      bytes_ = 0;
    } else {
      texts_.push_back(text);
      bytes_ += text.size();
    }
    signal_.wake();
  }
  void close() {
    closed_ = true;
    signal_.wake();
  }
  [[nodiscard]] bool lost() const noexcept { return lost_; }

  // The same, but waits for a slow reader as long as he reads at all: once he has taken nothing for
  // `patience`, he loses everything.
  awaitable<void> offer(std::string text, milliseconds patience) {
    using namespace boost::asio::experimental::awaitable_operators;
    while (!lost_ && !closed_ && bytes_ > 0 && bytes_ + text.size() > bytes_max_) {
      const std::uint64_t before = taken_;
      const auto first = co_await (signal_.wait() || pause_for(patience));
      if (first.index() == 0 && !std::get<0>(first)) co_return;
      if (first.index() == 1 && taken_ == before) break;
    }
    put(text);
  }

  // What has come, as one text of about kTakenBytes; nothing at the end. It is not more, so that a
  // slow reader is seen to read.
  awaitable<std::optional<std::string>> next() {
    while (texts_.empty()) {
      if (closed_ || lost_) co_return std::nullopt;
      if (!co_await signal_.wait()) co_return std::nullopt;
    }
    std::string all = std::move(texts_.front());
    texts_.pop_front();
    for (; !texts_.empty() && all.size() < kTakenBytes; texts_.pop_front()) all += texts_.front();
    bytes_ -= all.size();
    ++taken_;
    signal_.wake();
    co_return all;
  }

 private:
  Signal signal_;
  std::size_t bytes_max_;
  std::deque<std::string> texts_;
  std::size_t bytes_ = 0;
  std::uint64_t taken_ = 0;  // how often the reader came
  bool closed_ = false;
  bool lost_ = false;
};

}  // namespace caisson::sandboxer
