#include "egress/budget/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace caisson::egress {

namespace {

Amount plus(const Amount& a, const Amount& b) noexcept {
  return {sum_capped(a.tokens, b.tokens), sum_capped(a.cost, b.cost)};
}

// An account that was full gives back at most what it holds.
Amount minus(const Amount& a, const Amount& b) noexcept {
  return {std::max<std::int64_t>(a.tokens - b.tokens, 0), std::max<NanoUsd>(a.cost - b.cost, 0)};
}

// No caller's arithmetic may bring an account down.
Amount sound(const Amount& amount) noexcept {
  return {std::max<std::int64_t>(amount.tokens, 0), std::max<NanoUsd>(amount.cost, 0)};
}

}  // namespace

Budget::Budget(BudgetLevel level, std::string name, BudgetLimits limits,
               std::shared_ptr<Budget> tenant, const BudgetState& state)
    : level_(level),
      name_(std::move(name)),
      limits_(limits),
      state_{plus(sound(state.used), sound(state.reserved)), {}},
      tenant_(std::move(tenant)) {}

std::shared_ptr<Budget> Budget::of_tenant(std::string name, BudgetLimits limits,
                                          const BudgetState& state) {
  return std::shared_ptr<Budget>(
      new Budget(BudgetLevel::Tenant, std::move(name), limits, nullptr, state));
}

std::shared_ptr<Budget> Budget::of_sandbox(std::string name, BudgetLimits limits,
                                           std::shared_ptr<Budget> tenant,
                                           const BudgetState& state) {
  return std::shared_ptr<Budget>(
      new Budget(BudgetLevel::Sandbox, std::move(name), limits, std::move(tenant), state));
}

BudgetRefusal Budget::refuse(BudgetKind kind, std::int64_t needed) const {
  const bool money = kind == BudgetKind::Money;
  return BudgetRefusal{.level = level_,
                       .kind = kind,
                       .name = name_,
                       .limit = money ? *limits_.max_cost : *limits_.max_tokens,
                       .used = money ? state_.used.cost : state_.used.tokens,
                       .reserved = money ? state_.reserved.cost : state_.reserved.tokens,
                       .needed = needed};
}

std::optional<BudgetRefusal> Budget::refusal_for(const Amount& more) const {
  const Amount held = plus(state_.used, state_.reserved);
  const auto lacks = [](std::int64_t limit, std::int64_t now, std::int64_t wanted) {
    return sum_capped(now, wanted) > limit;
  };
  if (limits_.max_tokens && lacks(*limits_.max_tokens, held.tokens, more.tokens))
    return refuse(BudgetKind::Tokens, more.tokens);
  if (limits_.max_cost && lacks(*limits_.max_cost, held.cost, more.cost))
    return refuse(BudgetKind::Money, more.cost);
  return tenant_ ? tenant_->refusal_for(more) : std::nullopt;
}

void Budget::hold(const Amount& more) noexcept {
  state_.reserved = plus(state_.reserved, more);
  if (tenant_) tenant_->hold(more);
}

void Budget::finish(const Amount& reserved, const Amount& used) noexcept {
  state_.reserved = minus(state_.reserved, reserved);
  state_.used = plus(state_.used, used);
  if (tenant_) tenant_->finish(reserved, used);
}

void Budget::count(const Amount& used) noexcept { finish(Amount{}, used); }

std::expected<Reservation, BudgetRefusal> Budget::reserve(Amount amount) {
  amount = sound(amount);
  // A spent budget also refuses what claims to cost nothing: what it costs shows only afterwards.
  const Amount at_least{std::max<std::int64_t>(amount.tokens, 1),
                        std::max<NanoUsd>(amount.cost, 1)};
  if (auto refusal = refusal_for(at_least)) return std::unexpected(std::move(*refusal));
  hold(amount);
  return Reservation(shared_from_this(), amount);
}

Result<void> Budget::record_tokens(std::int64_t tokens) {
  if (tokens < 0)
    return failure(Errc::InvalidArgument, fmt::format("tokens must not be negative: {}", tokens));
  count(Amount{tokens, 0});
  return {};
}

Result<void> Budget::record_cost(double usd) {
  if (!std::isfinite(usd) || usd < 0) {
    return failure(Errc::InvalidArgument,
                   fmt::format("cost must be a finite number, not negative: {}", usd));
  }
  count(Amount{0, nano_usd(usd)});
  return {};
}

std::optional<BudgetRefusal> Budget::passed() const {
  if (limits_.max_tokens && state_.used.tokens > *limits_.max_tokens)
    return refuse(BudgetKind::Tokens, 0);
  if (limits_.max_cost && state_.used.cost > *limits_.max_cost) return refuse(BudgetKind::Money, 0);
  return tenant_ ? tenant_->passed() : std::nullopt;
}

MoneyLimited Budget::money_limited() const noexcept {
  if (limits_.max_cost) return MoneyLimited::Yes;
  return tenant_ ? tenant_->money_limited() : MoneyLimited::No;
}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  settle(amount_);
  budget_ = std::move(other.budget_);
  amount_ = other.amount_;
  return *this;
}

Reservation::~Reservation() { settle(amount_); }

std::expected<void, BudgetRefusal> Reservation::reach(Amount amount) {
  if (!budget_) return {};
  const Amount more = minus(sound(amount), amount_);
  if (more == Amount{}) return {};
  if (auto refusal = budget_->refusal_for(more)) return std::unexpected(std::move(*refusal));
  budget_->hold(more);
  amount_ = plus(amount_, more);
  return {};
}

void Reservation::settle(Amount used) noexcept {
  if (!budget_) return;
  budget_->finish(amount_, sound(used));
  budget_.reset();
}

}  // namespace caisson::egress
