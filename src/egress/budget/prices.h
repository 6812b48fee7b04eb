// egress/budget/prices.h — what tokens cost. Money is whole nano-dollars, so that sums are exact;
// what is less than one is rounded up, once for each call, so that nothing is free by rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "egress/budget/request_reader.h"
#include "egress/budget/token_usage.h"
#include "egress/budget/usage_reader.h"
#include "policy/settings/egress_settings.h"

namespace caisson::egress {

using NanoUsd = std::int64_t;

// Rounded to the nearest, but what is more than nothing never becomes nothing; capped at the most a
// limit can be.
[[nodiscard]] NanoUsd nano_usd(double usd) noexcept;
[[nodiscard]] std::string dollars(NanoUsd amount);  // "$0.0025"

// Nano-dollars for a million tokens.
struct Price {
  NanoUsd input = 0;
  NanoUsd output = 0;
  NanoUsd cached_input = 0;
  NanoUsd cache_write = 0;

  friend bool operator==(const Price&, const Price&) = default;
};

[[nodiscard]] NanoUsd cost_of(const Price& price, const TokenUsage& usage) noexcept;

class PriceTable {
 public:
  PriceTable() = default;
  // Settings that were read are valid; those built by hand are judged here: '*' only at the end, no
  // name twice.
  [[nodiscard]] static Result<PriceTable> make(std::span<const policy::PriceSettings> prices);

  // The exact name, else the longest beginning that fits.
  [[nodiscard]] std::optional<Price> find(std::string_view model) const;

 private:
  std::map<std::string, Price, std::less<>> exact_;
  std::map<std::string, Price, std::less<>> beginnings_;  // without their '*'
};

// Does some budget limit money? Then a model without a price is refused, and the message names the
// model and the setting; otherwise it is counted in tokens only.
enum class MoneyLimited : std::uint8_t { No, Yes };
[[nodiscard]] Result<std::optional<Price>> price_for(const PriceTable& table,
                                                     std::string_view model, MoneyLimited limited);

// Tokens and what they cost. Without a price they cost nothing.
struct Amount {
  std::int64_t tokens = 0;
  NanoUsd cost = 0;

  friend bool operator==(const Amount&, const Amount&) = default;
};

// A request that sets no limit is taken for one of so many tokens of output for each choice; while
// the answer streams the reservation grows with it.
inline constexpr std::int64_t kOutputTokensAssumed = 4096;

[[nodiscard]] Amount amount_of(const TokenUsage& usage, const std::optional<Price>& price) noexcept;
// The most that the call may use, before it leaves.
[[nodiscard]] Amount amount_before(const RequestFacts& facts,
                                   const std::optional<Price>& price) noexcept;
// Its input and `output_tokens` of the answer, while it streams.
[[nodiscard]] Amount amount_during(const RequestFacts& facts, std::int64_t output_tokens,
                                   const std::optional<Price>& price) noexcept;

}  // namespace caisson::egress
