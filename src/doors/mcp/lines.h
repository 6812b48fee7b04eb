// doors/mcp/lines.h — messages on their way to a client, one line of JSON each.
//
// Whoever answers puts lines in and never waits; one writer takes them out at the client's pace. So
// a call that is taken back is never cut in the middle of a line.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/channel/wakeup.h"

namespace caisson::mcp {

inline constexpr std::size_t kNotificationsMax = 256;  // that wait; more are dropped

class Lines {
 public:
  explicit Lines(const boost::asio::any_io_executor& executor)
      : wakeup_(executor), taken_(executor) {}

  struct Line {
    std::string text;
    bool answer = false;
    std::shared_ptr<void> held{};  // of the budget of bytes, until it is written
  };

  // False: too many wait, and it was dropped.
  bool notify(std::string text) {
    if (closed_ || waiting_.size() >= kNotificationsMax) return false;
    waiting_.push_back({std::move(text), false});
    wakeup_.wake();
    return true;
  }
  // Never dropped: whoever reads requests waits for room before the next one.
  void answer(std::string text, std::shared_ptr<void> held = nullptr) {
    if (closed_) return;
    waiting_.push_back({std::move(text), true, std::move(held)});
    wakeup_.wake();
  }
  // Returns when less than kNotificationsMax wait, or when it is cancelled. One waiter.
  boost::asio::awaitable<void> room() {
    while (waiting_.size() >= kNotificationsMax) {
      if (co_await taken_.wait() == engine::Wake::Cancelled) co_return;
    }
  }
  // No more will come.
  void close() {
    closed_ = true;
    wakeup_.wake();
  }
  // Nothing at the end, or when the wait is cancelled.
  boost::asio::awaitable<std::optional<Line>> next() {
    while (waiting_.empty()) {
      if (closed_ || co_await wakeup_.wait() == engine::Wake::Cancelled) co_return std::nullopt;
    }
    Line line = std::move(waiting_.front());
    waiting_.pop_front();
    taken_.wake();
    co_return line;
  }

 private:
  engine::Wakeup wakeup_;
  engine::Wakeup taken_;
  std::deque<Line> waiting_;
  bool closed_ = false;
};

}  // namespace caisson::mcp
