#include "egress/budget/budget.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "policy/capability.h"

namespace caisson::egress {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

policy::PriceSettings price(std::string model, double input, double output) {
  return {std::move(model), input, output, {}, {}};
}

// --- what must not pass ---

TEST(Budget, ACallThatDoesNotFitIsRefusedByName) {
  const auto tenant = Budget::of_tenant("team", {.max_tokens = 1000, .max_cost = {}});
  const auto box = Budget::of_sandbox("sb", {.max_tokens = 100, .max_cost = 5000}, tenant);
  const auto tokens = box->reserve({101, 1});
  ASSERT_FALSE(tokens);
  EXPECT_EQ(tokens.error(),
            (BudgetRefusal{BudgetLevel::Sandbox, BudgetKind::Tokens, "sb", 100, 0, 0, 101}));
  const auto money = box->reserve({100, 5001});
  ASSERT_FALSE(money);
  EXPECT_EQ(money.error().kind, BudgetKind::Money);
  EXPECT_EQ(box->state(), BudgetState{}) << "a refusal changes nothing";
  EXPECT_EQ(tenant->state(), BudgetState{});
  EXPECT_TRUE(box->reserve({100, 5000})) << "to reach a limit is not to pass it";
}

TEST(Budget, TheTenantsLimitHoldsForAllItsSandboxes) {
  const auto tenant = Budget::of_tenant("team", {.max_tokens = 100, .max_cost = {}});
  const auto a = Budget::of_sandbox("a", {.max_tokens = 80, .max_cost = {}}, tenant);
  const auto b = Budget::of_sandbox("b", {}, tenant);
  auto first = a->reserve({60, 0});
  ASSERT_TRUE(first);
  const auto second = b->reserve({50, 0});
  ASSERT_FALSE(second) << "what is reserved is not there for others";
  EXPECT_EQ(second.error().level, BudgetLevel::Tenant);
  EXPECT_EQ(second.error().name, "team");
  EXPECT_EQ(second.error().reserved, 60);
  EXPECT_EQ(b->state(), BudgetState{}) << "all or nothing";
  first->settle({10, 0});
  EXPECT_TRUE(b->reserve({50, 0}));
}

TEST(Budget, ASpentBudgetRefusesEvenWhatCostsNothing) {
  const auto box = Budget::of_sandbox("sb", {.max_tokens = {}, .max_cost = 10}, nullptr);
  auto call = box->reserve({5, 10});
  call->settle({5, 10});
  EXPECT_FALSE(box->passed());
  EXPECT_FALSE(box->reserve({0, 0}));
  EXPECT_FALSE(box->reserve({-5, -5})) << "a negative amount gives nothing back";
}

TEST(Budget, AStreamStopsAtTheLimit) {
  const auto box = Budget::of_sandbox("sb", {.max_tokens = 100, .max_cost = {}}, nullptr);
  auto call = box->reserve({50, 0});
  ASSERT_TRUE(call);
  EXPECT_TRUE(call->reach({40, 0})) << "within what was reserved";
  EXPECT_EQ(box->state().reserved.tokens, 50);
  EXPECT_TRUE(call->reach({100, 0}));
  const auto over = call->reach({101, 0});
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().needed, 1);
  EXPECT_EQ(call->amount().tokens, 100);
  call->settle({103, 0});
  EXPECT_EQ(box->state(), (BudgetState{{103, 0}, {}}));
  ASSERT_TRUE(box->passed());
  EXPECT_EQ(box->passed()->used, 103);
}

// The call has left, and nobody knows what it cost.
TEST(Budget, AForgottenReservationCountsAsUsed) {
  const auto tenant = Budget::of_tenant("team", {});
  const auto box = Budget::of_sandbox("sb", {}, tenant);
  {
    auto call = box->reserve({7, 9});
    ASSERT_TRUE(call);
  }
  EXPECT_EQ(box->state(), (BudgetState{{7, 9}, {}}));
  EXPECT_EQ(tenant->state(), (BudgetState{{7, 9}, {}}));
  auto other = box->reserve({1, 1});
  other->release();
  EXPECT_EQ(box->state(), (BudgetState{{7, 9}, {}}));
}

TEST(Budget, MovingAReservationCountsItOnce) {
  const auto box = Budget::of_sandbox("sb", {}, nullptr);
  auto a = box->reserve({5, 5});
  auto b = box->reserve({3, 3});
  Reservation moved = std::move(*a);
  moved = std::move(*b);  // the first one was forgotten
  EXPECT_EQ(box->state(), (BudgetState{{5, 5}, {3, 3}}));
  moved.settle({1, 1});
  moved.settle({9, 9});  // once is enough
  EXPECT_TRUE(moved.reach({99, 99}));
  EXPECT_EQ(box->state(), (BudgetState{{6, 6}, {}}));
  static_assert(!std::is_copy_constructible_v<Reservation>);
}

TEST(Budget, SumsNeverWrap) {
  const auto tenant = Budget::of_tenant("team", {.max_tokens = kMost - 1, .max_cost = kMost - 1});
  const auto box = Budget::of_sandbox("sb", {}, tenant);
  ASSERT_TRUE(box->record_tokens(kMost));
  ASSERT_TRUE(box->record_tokens(kMost));
  EXPECT_EQ(box->state().used.tokens, kMost);
  EXPECT_TRUE(box->passed());
  EXPECT_FALSE(box->reserve({kMost, kMost}));
  const auto free = Budget::of_sandbox("free", {}, nullptr);
  auto a = free->reserve({kMost, kMost});
  auto b = free->reserve({kMost, kMost});
  a->settle({kMost, kMost});
  b->settle({kMost, kMost});
  EXPECT_EQ(free->state().used, (Amount{kMost, kMost}));
  EXPECT_EQ(free->state().reserved, Amount{});
}

TEST(Budget, ReportsFromOutsideCountAndBadOnesDoNot) {
  const auto tenant = Budget::of_tenant("team", {});
  const auto box = Budget::of_sandbox("sb", {.max_tokens = 10, .max_cost = nano_usd(0.3)}, tenant);
  EXPECT_FALSE(box->record_tokens(-1));
  EXPECT_FALSE(box->record_cost(-0.1));
  EXPECT_FALSE(box->record_cost(std::nan("")));
  EXPECT_FALSE(box->record_cost(INFINITY));
  EXPECT_EQ(box->state(), BudgetState{});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(box->record_cost(0.1));
  EXPECT_FALSE(box->passed()) << "three dimes are thirty cents";
  ASSERT_TRUE(box->record_cost(1e-12));
  ASSERT_TRUE(box->passed()) << "less than a nano-dollar is not nothing";
  EXPECT_EQ(box->passed()->kind, BudgetKind::Money);
  ASSERT_TRUE(box->record_tokens(11));
  EXPECT_EQ(box->passed()->kind, BudgetKind::Tokens);
  EXPECT_EQ(tenant->state().used, (Amount{11, nano_usd(0.3) + 1}));
}

// --- what must ---

TEST(Budget, ARestartedServerGoesOnCounting) {
  const auto box = Budget::of_sandbox("sb", {.max_tokens = 100, .max_cost = {}}, nullptr);
  ASSERT_TRUE(box->record_tokens(30));
  auto call = box->reserve({50, 4});
  const BudgetState kept = box->state();
  const auto again = Budget::of_sandbox("sb", {.max_tokens = 100, .max_cost = {}}, nullptr, kept);
  EXPECT_EQ(again->state(), (BudgetState{{80, 4}, {}})) << "a call under way counts in full";
  EXPECT_FALSE(again->reserve({21, 0}));
  EXPECT_TRUE(again->reserve({20, 0}));
  const BudgetState bad{{-5, -5}, {-5, -5}};
  EXPECT_EQ(Budget::of_tenant("t", {}, bad)->state(), BudgetState{});
}

TEST(Budget, LimitsMayChange) {
  const auto tenant = Budget::of_tenant("team", {});
  const auto box = Budget::of_sandbox("sb", {}, tenant);
  EXPECT_EQ(box->money_limited(), MoneyLimited::No);
  tenant->change_limits({.max_tokens = {}, .max_cost = 5});
  EXPECT_EQ(box->money_limited(), MoneyLimited::Yes);
  EXPECT_FALSE(box->reserve({0, 6}));
}

TEST(Refusal, TheGuestIsToldInItsProvidersShape) {
  const BudgetRefusal tokens{BudgetLevel::Sandbox, BudgetKind::Tokens, "sb", 100, 90, 5, 20};
  EXPECT_EQ(status_of(tokens), 429U);
  EXPECT_EQ(error_body(Provider::OpenAi, tokens),
            R"({"error":{"type":"budget_exceeded","message":"the token budget of this sandbox is )"
            R"(spent: limit 100 tokens, used 90 tokens, reserved by calls under way 5 tokens, )"
            R"(this call may need 20 tokens","param":null,"code":"budget_exceeded"}})");
  const BudgetRefusal money{
      BudgetLevel::Tenant, BudgetKind::Money, "team", 2'500'000'000, 2'499'000'000, 0, 2'000'000};
  EXPECT_EQ(status_of(money), 402U);
  EXPECT_EQ(error_body(Provider::Anthropic, money),
            R"({"type":"error","error":{"type":"budget_exceeded","message":"the money budget )"
            R"(that this sandbox shares with others is spent"}})");
  EXPECT_EQ(to_string(money),
            "the money budget of tenant \"team\" is spent: limit $2.50, used $2.499, this call may "
            "need $0.002");
  EXPECT_TRUE(error_event(Provider::Anthropic, money).starts_with("event: error\ndata: {\"type\""));
  EXPECT_TRUE(error_event(Provider::OpenAi, money).starts_with("data: {\"error\""));
  EXPECT_TRUE(error_event(Provider::OpenAi, money).ends_with("}\n\n"));
}

// --- prices ---

TEST(Prices, BadTablesAreRefused) {
  for (const char* model : {"", "a*b", "*a", "a**"}) {
    const std::vector<policy::PriceSettings> prices = {price(model, 1, 1)};
    EXPECT_FALSE(PriceTable::make(prices)) << model;
  }
  const std::vector<policy::PriceSettings> twice = {price("a*", 1, 1), price("a*", 2, 2)};
  EXPECT_FALSE(PriceTable::make(twice));
}

TEST(Prices, AModelWithoutPriceIsRefusedWhereMoneyIsLimited) {
  const PriceTable table;
  const auto refused = price_for(table, "gpt-9\n", MoneyLimited::Yes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Denied);
  EXPECT_NE(refused.error().message.find("\"gpt-9\\x0a\""), std::string::npos);
  EXPECT_NE(refused.error().message.find("egress.prices"), std::string::npos);
  const auto counted = price_for(table, "gpt-9", MoneyLimited::No);
  ASSERT_TRUE(counted);
  EXPECT_FALSE(*counted);
  EXPECT_EQ(amount_of({.input = 5, .output = 6}, *counted), (Amount{11, 0}));
}

TEST(Prices, TheLongestNameThatFitsCounts) {
  const std::vector<policy::PriceSettings> prices = {
      price("gpt-4o*", 2.5, 10), price("gpt-4o-mini*", 0.15, 0.6), price("gpt-4o-mini", 1, 1),
      price("claude", 3, 15)};
  const auto table = PriceTable::make(prices);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->find("gpt-4o")->input, nano_usd(2.5));
  EXPECT_EQ(table->find("gpt-4o-2024-08-06")->input, nano_usd(2.5));
  EXPECT_EQ(table->find("gpt-4o-mini-2024")->input, nano_usd(0.15));
  EXPECT_EQ(table->find("gpt-4o-mini")->input, nano_usd(1)) << "exact before any beginning";
  EXPECT_FALSE(table->find("gpt-4"));
  EXPECT_FALSE(table->find("claude-3"));
  EXPECT_FALSE(table->find(""));
  const std::vector<policy::PriceSettings> all = {price("*", 1, 1)};
  EXPECT_TRUE(PriceTable::make(all)->find("whatever"));
  EXPECT_TRUE(PriceTable::make(all)->find(std::string(10000, 'a')));
}

TEST(Prices, CostIsExactAndRoundedUp) {
  policy::PriceSettings settings = price("a", 2.5, 10);
  settings.cached_input_per_million_usd = 1.25;
  settings.cache_write_per_million_usd = 3.125;
  const std::vector<policy::PriceSettings> prices = {settings};
  const Price one = *PriceTable::make(prices)->find("a");
  EXPECT_EQ(cost_of(one, {1, 1, 1, 1}), 2500 + 1250 + 3125 + 10000);
  EXPECT_EQ(cost_of(one, {1'000'000, 0, 0, 0}), nano_usd(2.5));
  EXPECT_EQ(cost_of(one, {}), 0);
  const Price tiny{.input = 1, .output = 0, .cached_input = 0, .cache_write = 0};
  EXPECT_EQ(cost_of(tiny, {1, 0, 0, 0}), 1) << "nothing is free by rounding";
  const Price huge{kMost, kMost, kMost, kMost};
  EXPECT_EQ(cost_of(huge, {kMost / 4, 0, 0, kMost / 4}), kMost);
  EXPECT_EQ(nano_usd(1e300), nano_usd(policy::kCostUsdMax));
  EXPECT_EQ(nano_usd(-1), 0);
  EXPECT_EQ(nano_usd(std::nan("")), 0);
  EXPECT_EQ(dollars(0), "$0.00");
  EXPECT_EQ(dollars(1), "$0.000000001");
}

TEST(Prices, TheMostIsReservedBeforehand) {
  const Price one{
      .input = 1'000'000, .output = 2'000'000, .cached_input = 0, .cache_write = 3'000'000};
  RequestFacts facts{.model = "a", .output_tokens_max = 100, .input_tokens = 10};
  EXPECT_EQ(amount_before(facts, one), (Amount{110, 10 * 3 + 100 * 2}));
  facts.output_tokens_max.reset();
  facts.choices = 2;
  EXPECT_EQ(amount_before(facts, one).tokens, 10 + 2 * kOutputTokensAssumed);
  EXPECT_EQ(amount_during(facts, 7, one), (Amount{17, 10 * 3 + 7 * 2}));
  facts.answers_text = false;
  EXPECT_EQ(amount_before(facts, std::nullopt), (Amount{10, 0}));
}

}  // namespace
}  // namespace caisson::egress
