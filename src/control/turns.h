// control/turns.h — at most so many at a time; the others wait in line. One thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "engine/channel/wakeup.h"

namespace caisson::control {

class Turns {
  struct Line {
    explicit Line(boost::asio::any_io_executor on, std::size_t at_once)
        : executor(std::move(on)), free(at_once) {}
    boost::asio::any_io_executor executor;
    std::size_t free;
    std::list<std::shared_ptr<engine::Wakeup>> waiting;
  };

 public:
  Turns(boost::asio::any_io_executor executor, std::size_t at_once)
      : line_(std::make_shared<Line>(std::move(executor), at_once)) {}

  // Whose turn it is; given back when it goes, also after the Turns themselves.
  class Turn {
   public:
    Turn() = default;
    explicit Turn(std::shared_ptr<Line> line) : line_(std::move(line)) {}
    Turn(Turn&&) noexcept = default;
    Turn& operator=(Turn&& other) noexcept {
      give_back();
      line_ = std::move(other.line_);
      return *this;
    }
    ~Turn() { give_back(); }

   private:
    void give_back() noexcept {
      const auto line = std::exchange(line_, nullptr);
      if (!line) return;
      if (line->waiting.empty()) {
        ++line->free;
        return;
      }
      // Handed on without becoming free: nobody can come in between.
      const auto next = line->waiting.front();
      line->waiting.pop_front();
      next->wake();
    }
    std::shared_ptr<Line> line_;
  };

  // Busy when it is not one's turn within `patience`.
  boost::asio::awaitable<Result<Turn>> take(std::optional<milliseconds> patience = std::nullopt) {
    const auto line = line_;
    if (line->free > 0) {
      --line->free;
      co_return Turn(line);
    }
    const auto wakeup = std::make_shared<engine::Wakeup>(line->executor);
    line->waiting.push_back(wakeup);
    std::optional<TimePoint> until;
    if (patience) until = Clock::now() + *patience;
    const auto woken = co_await wakeup->wait(until);
    if (woken == engine::Wake::Woken) co_return Turn(line);
    line->waiting.remove(wakeup);
    if (woken == engine::Wake::Cancelled) co_return failure(Errc::Gone, "the caller left");
    co_return failure(Errc::Busy, "another call has it, and went on for too long");
  }

  [[nodiscard]] std::size_t waiting() const noexcept { return line_->waiting.size(); }
  [[nodiscard]] std::size_t free() const noexcept { return line_->free; }

 private:
  std::shared_ptr<Line> line_;
};

}  // namespace caisson::control
