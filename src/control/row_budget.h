// control/row_budget.h — how much of the audit one tenant may fill.
//
// Rows stay for ever, so whoever may call without end could fill the disk for everybody. A tenant
// has a number of bytes for each minute, and a smaller number of rows about calls that came to
// nothing, since those cost him nothing. Beyond either his calls are turned away until the minute
// is over: with a row about the first, which says how many others there were.
//
// What a guest causes on its way out is its sandbox's own share: the code in a sandbox must not
// turn its owner away, nor its siblings.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "store/store.h"

namespace caisson::control {

inline constexpr std::uint64_t kAuditBytesPerMinute = 128ULL << 20U;
inline constexpr std::uint64_t kAuditRefusalsPerMinute = 6000;
inline constexpr std::uint64_t kGuestAuditBytesPerMinute = 8ULL << 20U;
inline constexpr std::uint64_t kGuestAuditRefusalsPerMinute = 1500;
inline constexpr std::string_view kGuestActor = "guest";
inline constexpr std::size_t kBudgetTenantsMax = 4096;  // remembered beyond their minute

class RowBudget {
 public:
  struct Limits {  // in a minute, of one tenant; 0: no limit
    std::uint64_t bytes = kAuditBytesPerMinute;
    std::uint64_t refusals = kAuditRefusalsPerMinute;
  };
  struct Verdict {
    seconds wait{0};                         // zero: the call may go on
    std::optional<store::AuditEvent> row{};  // to be written, whatever the verdict
  };

  [[nodiscard]] Verdict judge(std::string_view tenant, const Limits& limits, TimePoint now);
  // Its share is never larger than its tenant's.
  [[nodiscard]] Verdict judge_guest(std::string_view tenant, std::string_view sandbox,
                                    const Limits& tenants, TimePoint now);
  void charge(const store::AuditEvent& row, TimePoint now);
  [[nodiscard]] std::size_t tenants() const noexcept { return payers_.size(); }

 private:
  struct Minute {
    TimePoint begin;
    std::uint64_t bytes = 0;
    std::uint64_t refusals = 0;
    std::uint64_t untold = 0;  // calls turned away that no row has told of
    bool told = false;         // in this minute
  };
  // A tenant, or the guest of one of its sandboxes.
  struct Payer {
    std::string tenant;
    std::string sandbox{};

    friend auto operator<=>(const Payer&, const Payer&) = default;
  };
  Minute& find(const Payer& payer, TimePoint now);
  [[nodiscard]] Verdict judge(const Payer& payer, const Limits& limits, TimePoint now);
  void forget_old(TimePoint now);

  std::map<Payer, Minute> payers_;
};

}  // namespace caisson::control
