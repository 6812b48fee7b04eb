// egress/gate/deadline.h — the time limit of a connection. Moving it further away, which happens
// with every burst of bytes, only stores a number; the one timer behind it is set again when it
// fires too early.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>

#include "base/clock.h"

namespace caisson::egress {

class Deadline {
 public:
  // `on_passed` is called on the executor, never within set(), and never after our end.
  Deadline(const boost::asio::any_io_executor& executor, std::function<void()> on_passed);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  Deadline(Deadline&&) = delete;
  Deadline& operator=(Deadline&&) = delete;

  void set(nanoseconds from_now);
  void clear() noexcept;
  [[nodiscard]] bool passed() const noexcept;

 private:
  struct Core;
  static void arm(const std::shared_ptr<Core>& core);
  std::shared_ptr<Core> core_;
};

}  // namespace caisson::egress
