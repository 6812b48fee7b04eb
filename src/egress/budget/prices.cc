#include "egress/budget/prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "policy/capability.h"
#include "policy/wording.h"

namespace caisson::egress {

namespace {

__extension__ using Wide = __int128;

constexpr double kNanosPerUsd = 1e9;
constexpr Wide kTokensOfPrice = 1'000'000;

Price price_of(const policy::PriceSettings& settings) {
  const double input = settings.input_per_million_usd;
  return Price{.input = nano_usd(input),
               .output = nano_usd(settings.output_per_million_usd),
               .cached_input = nano_usd(settings.cached_input_per_million_usd.value_or(input)),
               .cache_write = nano_usd(settings.cache_write_per_million_usd.value_or(input))};
}

// Input that is not known to be cheap: whichever way of reading it costs most.
NanoUsd dearest_input(const Price& price) {
  return std::max({price.input, price.cached_input, price.cache_write});
}

}  // namespace

NanoUsd nano_usd(double usd) noexcept {
  if (!(usd > 0)) return 0;
  if (usd >= policy::kCostUsdMax) return static_cast<NanoUsd>(policy::kCostUsdMax * kNanosPerUsd);
  return std::max<NanoUsd>(std::llround(usd * kNanosPerUsd), 1);
}

std::string dollars(NanoUsd amount) {
  constexpr NanoUsd kNanos = 1'000'000'000;
  std::string out = fmt::format("${}.{:09}", amount / kNanos, amount % kNanos);
  while (out.ends_with('0') && out[out.size() - 3] != '.') out.pop_back();
  return out;
}

NanoUsd cost_of(const Price& price, const TokenUsage& usage) noexcept {
  const Wide sum = Wide{price.input} * usage.input + Wide{price.output} * usage.output +
                   Wide{price.cached_input} * usage.cached_input +
                   Wide{price.cache_write} * usage.cache_write;
  const Wide cost = (sum + kTokensOfPrice - 1) / kTokensOfPrice;
  constexpr Wide kMost = std::numeric_limits<NanoUsd>::max();
  return static_cast<NanoUsd>(std::min(cost, kMost));
}

Result<PriceTable> PriceTable::make(std::span<const policy::PriceSettings> prices) {
  PriceTable table;
  for (const policy::PriceSettings& one : prices) {
    std::string name = one.model;
    const bool open = name.ends_with('*');
    if (open) name.pop_back();
    if ((name.empty() && !open) || name.find('*') != std::string::npos) {
      return bad_field("egress.prices",
                       fmt::format("egress.prices: {} is no name of a model; '*' may stand at its "
                                   "end",
                                   policy::in_quotes(one.model)));
    }
    auto& names = open ? table.beginnings_ : table.exact_;
    if (!names.try_emplace(std::move(name), price_of(one)).second) {
      return bad_field("egress.prices", fmt::format("egress.prices: {} has a price already",
                                                    policy::in_quotes(one.model)));
    }
  }
  return table;
}

std::optional<Price> PriceTable::find(std::string_view model) const {
  if (const auto found = exact_.find(model); found != exact_.end()) return found->second;
  for (std::size_t size = std::min(model.size(), policy::kModelBytesMax);; --size) {
    const auto found = beginnings_.find(model.substr(0, size));
    if (found != beginnings_.end()) return found->second;
    if (size == 0) return std::nullopt;
  }
}

Result<std::optional<Price>> price_for(const PriceTable& table, std::string_view model,
                                       MoneyLimited limited) {
  std::optional<Price> price = table.find(model);
  if (price || limited == MoneyLimited::No) return price;
  return failure(Errc::Denied,
                 fmt::format("model {} has no price in egress.prices, and what is spent here is "
                             "limited; use a model that has one",
                             policy::in_quotes(model)));
}

Amount amount_of(const TokenUsage& usage, const std::optional<Price>& price) noexcept {
  return Amount{usage.total(), price ? cost_of(*price, usage) : 0};
}

Amount amount_before(const RequestFacts& facts, const std::optional<Price>& price) noexcept {
  const std::int64_t assumed = product_capped(kOutputTokensAssumed, facts.choices);
  const std::int64_t output = facts.answers_text ? facts.output_tokens_max.value_or(assumed) : 0;
  return amount_during(facts, output, price);
}

Amount amount_during(const RequestFacts& facts, std::int64_t output_tokens,
                     const std::optional<Price>& price) noexcept {
  const TokenUsage usage{.input = facts.input_tokens, .output = output_tokens};
  std::optional<Price> dear = price;
  if (dear) dear->input = dearest_input(*dear);
  return amount_of(usage, dear);
}

}  // namespace caisson::egress
