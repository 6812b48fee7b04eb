#include "egress/gate/ledger.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace caisson::egress {

Ledger::Ledger(Rules rules, TimePoint now)
    : rules_(std::move(rules)), buckets_(rules_, now), spent_(rules_.all().size()) {}

void Ledger::replace(Rules rules, TimePoint now) {
  buckets_ = buckets_.after_change(rules_, rules, now);
  std::vector<std::uint64_t> spent(rules.all().size());
  for (std::size_t i = 0; i < spent.size(); ++i) {
    const auto same = std::ranges::find(rules_.all(), rules.all()[i]);
    const auto old_index = static_cast<std::size_t>(same - rules_.all().begin());
    if (old_index < spent_.size()) spent[i] = spent_[old_index];
  }
  spent_ = std::move(spent);
  rules_ = std::move(rules);
}

Verdict Ledger::take(Verdict verdict, TimePoint now) {
  if (verdict.outcome == Outcome::Deny || !verdict.rule_index) return verdict;
  const std::size_t index = *verdict.rule_index;
  if (allowance(index) == 0) return over_bytes(std::move(verdict), rules_);
  if (!buckets_.take(index, now)) {
    return over_rate(std::move(verdict), rules_, buckets_.wait(index, now));
  }
  return verdict;
}

nanoseconds Ledger::wait(std::size_t rule_index, TimePoint now) const {
  return buckets_.wait(rule_index, now);
}

std::uint64_t Ledger::allowance(std::size_t rule_index) const noexcept {
  if (rule_index >= spent_.size()) return 0;
  const std::int64_t limit = rules_.all()[rule_index].wanted.max_bytes;
  if (limit <= 0) return std::numeric_limits<std::uint64_t>::max();
  const auto most = static_cast<std::uint64_t>(limit);
  return most - std::min(most, spent_[rule_index]);
}

void Ledger::spend(std::size_t rule_index, std::uint64_t bytes) noexcept {
  if (rule_index < spent_.size()) spent_[rule_index] += bytes;
}

}  // namespace caisson::egress
