#include "egress/wire/token_bucket.h"

#include <algorithm>

namespace caisson::egress {

RuleBuckets::RuleBuckets(const Rules& rules, TimePoint now) {
  buckets_.reserve(rules.all().size());
  for (const Rules::Rule& rule : rules.all()) {
    buckets_.emplace_back(rule.wanted.rate_limit_per_min, now);
  }
}

bool RuleBuckets::take(std::size_t rule_index, TimePoint now) {
  return rule_index < buckets_.size() && buckets_[rule_index].take(now);
}

nanoseconds RuleBuckets::wait(std::size_t rule_index, TimePoint now) const {
  return rule_index < buckets_.size() ? buckets_[rule_index].wait(now) : nanoseconds::max();
}

RuleBuckets RuleBuckets::after_change(const Rules& before, const Rules& after,
                                      TimePoint now) const {
  RuleBuckets out(after, now);
  for (std::size_t i = 0; i < out.buckets_.size(); ++i) {
    const auto same = std::ranges::find(before.all(), after.all()[i]);
    const auto old_index = static_cast<std::size_t>(same - before.all().begin());
    if (old_index < buckets_.size()) out.buckets_[i] = buckets_[old_index];
  }
  return out;
}

}  // namespace caisson::egress
