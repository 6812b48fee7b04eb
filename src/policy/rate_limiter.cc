#include "policy/rate_limiter.h"

#include <algorithm>

#include "policy/capability.h"

namespace caisson::policy {

RateLimiter::RateLimiter(std::int64_t per_min, TimePoint now)
    : per_min_(std::clamp(per_min, std::int64_t{0}, kRateLimitPerMinMax)),
      credit_(per_min_ * kTokenUnits),
      last_(now) {}

std::int64_t RateLimiter::credit_at(TimePoint now) const {
  // A minute fills the bucket, and the bound keeps the product within 64 bits.
  const nanoseconds elapsed = std::clamp<nanoseconds>(now - last_, nanoseconds(0), seconds(60));
  return std::min(credit_ + elapsed.count() * per_min_, per_min_ * kTokenUnits);
}

bool RateLimiter::take(TimePoint now) {
  credit_ = credit_at(now);
  last_ = std::max(last_, now);
  if (credit_ < kTokenUnits) return false;
  credit_ -= kTokenUnits;
  return true;
}

nanoseconds RateLimiter::wait(TimePoint now) const {
  if (per_min_ == 0) return nanoseconds::max();
  const std::int64_t missing = kTokenUnits - credit_at(now);
  if (missing <= 0) return nanoseconds(0);
  return nanoseconds((missing + per_min_ - 1) / per_min_);
}

}  // namespace caisson::policy
