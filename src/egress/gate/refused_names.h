// egress/gate/refused_names.h — a guest that asks for a refused name over and over fills one row a
// second and not one a query. The first is told at once, what follows within the second is told as
// a number.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/clock.h"

namespace caisson::egress {

// Names remembered at once; with more of them in one second, each is told.
inline constexpr std::size_t kRefusedNamesMax = 256;

class RefusedNames {
 public:
  explicit RefusedNames(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  // Whether to tell it now.
  [[nodiscard]] bool is_new(const std::string& name, TimePoint now);
  // Calls `tell` for each name that was held back and whose second is over, with how often.
  using Tell = std::function<void(const std::string& name, std::uint32_t times)>;
  void flush(TimePoint now, const Tell& tell);
  [[nodiscard]] bool empty() const noexcept { return held_.empty(); }
  // For whoever calls flush() when the second is over.
  [[nodiscard]] boost::asio::steady_timer& timer() noexcept { return timer_; }
  bool ticking = false;

 private:
  struct Held {
    TimePoint until;
    std::uint32_t times = 0;
  };
  boost::asio::steady_timer timer_;
  std::map<std::string, Held> held_;
};

}  // namespace caisson::egress
