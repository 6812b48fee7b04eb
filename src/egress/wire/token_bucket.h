// egress/wire/token_bucket.h — requests per minute, one bucket per rule of one sandbox. The bucket
// itself is policy::RateLimiter; here they stand beside the rules they belong to. Their number is
// that of the rules, so it has a limit already.
#pragma once

#include <cstddef>
#include <vector>

#include "base/clock.h"
#include "egress/wire/rules.h"
#include "policy/rate_limiter.h"

namespace caisson::egress {

class RuleBuckets {
 public:
  // Every bucket begins full.
  RuleBuckets(const Rules& rules, TimePoint now);

  // One request under this rule: yes, or not now. A rule that is not there lets nothing pass.
  [[nodiscard]] bool take(std::size_t rule_index, TimePoint now);
  // How long until take() would say yes.
  [[nodiscard]] nanoseconds wait(std::size_t rule_index, TimePoint now) const;

  // The buckets for changed rules. A rule that stayed as it was keeps what it has spent: else a
  // guest with a friend who changes its rules could refill them.
  [[nodiscard]] RuleBuckets after_change(const Rules& before, const Rules& after,
                                         TimePoint now) const;

 private:
  std::vector<policy::RateLimiter> buckets_;
};

}  // namespace caisson::egress
