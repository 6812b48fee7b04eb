// egress/gate/ledger.h — what the rules of one sandbox give, and what is spent of it: requests in
// buckets, bytes for the sandbox's life.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "egress/wire/decision.h"
#include "egress/wire/rules.h"
#include "egress/wire/token_bucket.h"

namespace caisson::egress {

class Ledger {
 public:
  Ledger(Rules rules, TimePoint now);

  [[nodiscard]] const Rules& rules() const noexcept { return rules_; }
  // A rule that stayed as it was keeps what it has spent.
  void replace(Rules rules, TimePoint now);

  // One request under the verdict's rule: the verdict as it was, or the refusal that it becomes.
  [[nodiscard]] Verdict take(Verdict verdict, TimePoint now);
  [[nodiscard]] nanoseconds wait(std::size_t rule_index, TimePoint now) const;

  // How many bytes may still pass; the largest number where there is no limit.
  [[nodiscard]] std::uint64_t allowance(std::size_t rule_index) const noexcept;
  void spend(std::size_t rule_index, std::uint64_t bytes) noexcept;

 private:
  Rules rules_;
  RuleBuckets buckets_;
  std::vector<std::uint64_t> spent_;  // beside the rules
};

}  // namespace caisson::egress
