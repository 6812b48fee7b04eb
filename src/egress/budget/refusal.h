// egress/budget/refusal.h — that a budget is spent, as a value, and as a guest reads it: in the
// shape of its provider's own errors, so that the program inside shows it as it shows those.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "egress/budget/token_usage.h"

namespace caisson::egress {

enum class BudgetLevel : std::uint8_t { Tenant, Sandbox };
enum class BudgetKind : std::uint8_t { Tokens, Money };

struct BudgetRefusal {
  BudgetLevel level = BudgetLevel::Sandbox;
  BudgetKind kind = BudgetKind::Tokens;
  std::string name;  // of the tenant or the sandbox
  // Tokens, or nano-dollars.
  std::int64_t limit = 0;
  std::int64_t used = 0;
  std::int64_t reserved = 0;  // by other calls under way
  std::int64_t needed = 0;    // by this one; 0: the limit is passed already

  friend bool operator==(const BudgetRefusal&, const BudgetRefusal&) = default;
};

// For the audit and the tenant: which budget, its limit, what is used, what would be needed.
[[nodiscard]] std::string to_string(const BudgetRefusal& refusal);
// For the guest. What other sandboxes of the tenant have used is none of its business.
[[nodiscard]] std::string guest_message(const BudgetRefusal& refusal);

// 402 for money, 429 for tokens.
[[nodiscard]] unsigned status_of(const BudgetRefusal& refusal) noexcept;

// The providers' clients try again after a 429; this header of theirs tells them that it is no use.
inline constexpr std::string_view kNoRetryHeader = "x-should-retry";
inline constexpr std::string_view kNoRetryValue = "false";

// {"error": {"type": …, "message": …}} with what else the provider's clients look for.
[[nodiscard]] std::string error_body(Provider provider, std::string_view type,
                                     std::string_view message);
[[nodiscard]] std::string error_body(Provider provider, const BudgetRefusal& refusal);
// The same as the last event of a stream that had to stop.
[[nodiscard]] std::string error_event(Provider provider, const BudgetRefusal& refusal);

}  // namespace caisson::egress
