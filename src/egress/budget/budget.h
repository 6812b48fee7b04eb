// egress/budget — what calls to language models cost, and whether there is enough left. Start here:
// a Budget is an account with limits; a sandbox's lies within its tenant's, and every call counts
// in both. Before a call leaves, the most it may use is reserved; while the answer streams the
// reservation grows with it, or the stream must stop; afterwards the provider's own numbers take
// its place. request_reader.h reads what is asked, usage_reader.h what was used, prices.h says what
// that costs, refusal.h what a guest is told.
//
// Everything here is a function of its arguments or an account in memory. It belongs to one thread.
// Never here: sockets, files, clocks, secrets, who the sandboxes are.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "egress/budget/prices.h"
#include "egress/budget/refusal.h"

namespace caisson::egress {

struct BudgetLimits {
  std::optional<std::int64_t> max_tokens;
  std::optional<NanoUsd> max_cost;

  friend bool operator==(const BudgetLimits&, const BudgetLimits&) = default;
};

// What a server keeps, so that the next one goes on counting.
struct BudgetState {
  Amount used;
  Amount reserved;  // by calls under way

  friend bool operator==(const BudgetState&, const BudgetState&) = default;
};

class Budget;

// A part of a budget that a call under way may use. Dropped without a word it counts as used: the
// call has left, and nobody knows what it cost.
class Reservation {
 public:
  Reservation(Reservation&& other) noexcept = default;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

  // The call has used `amount` so far. Reserves more when that is more than was reserved; a refusal
  // means that the call must stop now, and leaves the reservation as it was.
  [[nodiscard]] std::expected<void, BudgetRefusal> reach(Amount amount);
  // The call is over and used this, more or less than was reserved.
  void settle(Amount used) noexcept;
  // The call never left.
  void release() noexcept { settle(Amount{}); }

  [[nodiscard]] const Amount& amount() const noexcept { return amount_; }

 private:
  friend class Budget;
  Reservation(std::shared_ptr<Budget> budget, Amount amount) noexcept
      : budget_(std::move(budget)), amount_(amount) {}

  std::shared_ptr<Budget> budget_;  // none once settled
  Amount amount_;
};

class Budget : public std::enable_shared_from_this<Budget> {
 public:
  // Calls that were under way when the state was kept count as used.
  [[nodiscard]] static std::shared_ptr<Budget> of_tenant(std::string name, BudgetLimits limits,
                                                         const BudgetState& state = {});
  [[nodiscard]] static std::shared_ptr<Budget> of_sandbox(std::string name, BudgetLimits limits,
                                                          std::shared_ptr<Budget> tenant,
                                                          const BudgetState& state = {});

  // All or nothing: either every account has room, or none changes. To reach a limit is allowed, to
  // pass it is not; a budget that is spent refuses even a call that costs nothing.
  [[nodiscard]] std::expected<Reservation, BudgetRefusal> reserve(Amount amount);

  // Reported from outside. Always counted, also beyond the limit; a negative one is refused.
  [[nodiscard]] Result<void> record_tokens(std::int64_t count);
  [[nodiscard]] Result<void> record_cost(double usd);

  // The limit that is passed, of this account or of the tenant's: whoever ends sandboxes asks.
  [[nodiscard]] std::optional<BudgetRefusal> passed() const;
  [[nodiscard]] MoneyLimited money_limited() const noexcept;

  void change_limits(BudgetLimits limits) noexcept { limits_ = limits; }
  [[nodiscard]] const BudgetLimits& limits() const noexcept { return limits_; }
  [[nodiscard]] const BudgetState& state() const noexcept { return state_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  friend class Reservation;
  Budget(BudgetLevel level, std::string name, BudgetLimits limits, std::shared_ptr<Budget> tenant,
         const BudgetState& state);

  [[nodiscard]] std::optional<BudgetRefusal> refusal_for(const Amount& more) const;
  [[nodiscard]] BudgetRefusal refuse(BudgetKind kind, std::int64_t needed) const;
  void hold(const Amount& more) noexcept;
  void finish(const Amount& reserved, const Amount& used) noexcept;
  void count(const Amount& used) noexcept;

  BudgetLevel level_;
  std::string name_;
  BudgetLimits limits_;
  BudgetState state_;
  std::shared_ptr<Budget> tenant_;  // of a sandbox; or none
};

}  // namespace caisson::egress
