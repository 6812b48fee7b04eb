// policy/rate_limiter.h — a token bucket: N requests at once, then N a minute. Time is passed in.
// After a quiet minute the bucket is full again, so any 60 seconds see fewer than 2 N requests, and
// a long run sees N a minute.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace caisson::policy {

class RateLimiter {
 public:
  // The bucket begins full. A limit below 1 lets nothing pass.
  RateLimiter(std::int64_t per_min, TimePoint now);

  // Takes one token, or says no. A time before the last one counts as no time passed.
  [[nodiscard]] bool take(TimePoint now);

  // How long until take() would say yes; zero when it would now. Without a limit of at least 1:
  // forever.
  [[nodiscard]] nanoseconds wait(TimePoint now) const;

 private:
  [[nodiscard]] std::int64_t credit_at(TimePoint now) const;

  // In units of 1/(60·10⁹) of a token: then one nanosecond adds exactly `per_min_` units and
  // nothing is rounded.
  static constexpr std::int64_t kTokenUnits = 60'000'000'000;
  std::int64_t per_min_;
  std::int64_t credit_;
  TimePoint last_;
};

}  // namespace caisson::policy
