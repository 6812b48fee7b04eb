// Language models: what each sandbox may spend, what it has spent, and what happens at the limit.
#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <chrono>

#include "control/fleet_impl.h"
#include "control/text.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

constexpr double kNanosPerUsd = 1e9;
constexpr std::size_t kModelShownMax = 128;

egress::BudgetLimits limits_of(const KeptBudget& kept) {
  return {kept.max_tokens, kept.max_cost_nano_usd};
}

std::string_view to_string(egress::Provider provider) {
  return provider == egress::Provider::OpenAi ? "openai" : "anthropic";
}

}  // namespace

std::shared_ptr<egress::Budget> FleetImpl::tenant_budget(const std::string& tenant) {
  std::shared_ptr<egress::Budget>& budget = tenant_budgets_[tenant];
  const auto said = options_.budgets.find(tenant);
  const egress::BudgetLimits limits =
      said == options_.budgets.end() ? egress::BudgetLimits{} : said->second;
  // One row, once for each tenant in the life of a server.
  if (!budget) budget = egress::Budget::of_tenant(tenant, limits, spent_before(tenant));
  budget->change_limits(limits);
  return budget;
}

// What a tenant has spent stays spent when its sandboxes are gone and the server is another. It
// stands among the records of sandboxes that have ended, always as the latest, so it is not
// forgotten as the oldest of those are; no sandbox can have its id.
std::string FleetImpl::account_of(const std::string& tenant) { return "tenant:" + tenant; }

egress::BudgetState FleetImpl::spent_before(const std::string& tenant) const {
  egress::BudgetState state;
  const auto kept = store_.sandbox(account_of(tenant));
  if (!kept || !*kept) return state;
  boost::system::error_code wrong;
  const json::value value = json::parse((*kept)->spec, wrong);
  if (wrong || !value.is_object()) return state;
  const auto number = [&](std::string_view name) -> std::int64_t {
    const json::value* at = value.get_object().if_contains(name);
    return at != nullptr && at->is_int64() ? at->get_int64() : 0;
  };
  state.used = {number("used_tokens"), number("used_nano_usd")};
  return state;
}

store::SandboxRecord FleetImpl::account(const std::string& tenant) {
  const egress::Amount& used = tenant_budget(tenant)->state().used;
  store::SandboxRecord out;
  out.id = account_of(tenant);
  out.tenant = tenant;
  out.state = store::RecordState::Ended;
  out.created = store::wall_now();
  out.ended = out.created;
  out.spec =
      json::serialize(json::object{{"used_tokens", used.tokens}, {"used_nano_usd", used.cost}});
  return out;
}

void FleetImpl::open_budget(Sandbox& sandbox) {
  const KeptBudget& kept = sandbox.kept.budget;
  // One that starts again goes on with its account, and forks draw on the one they come from.
  const auto before = living_.find(sandbox.id);
  if (before != living_.end() && before->second->budget) {
    sandbox.budget = before->second->budget;
    return;
  }
  const auto payer = living_.find(sandbox.kept.payer);
  const bool has_payer = payer != living_.end() && payer->second->tenant == sandbox.tenant;
  const auto tenant = has_payer ? payer->second->budget : tenant_budget(sandbox.tenant);
  egress::BudgetState state;
  state.used = {kept.used_tokens, kept.used_nano_usd};
  sandbox.budget = egress::Budget::of_sandbox(sandbox.id, limits_of(kept), tenant, state);
}

// What a fork spends, those have spent that it draws on.
void FleetImpl::keep_payers(const Sandbox& sandbox, store::Store::Batch& batch) {
  std::set<std::string> seen{sandbox.id};
  for (auto at = living_.find(sandbox.kept.payer);
       at != living_.end() && seen.insert(at->first).second;
       at = living_.find(at->second->kept.payer)) {
    keep_spent(*at->second);
    batch.sandboxes.push_back(stored(*at->second));
  }
}

void FleetImpl::keep_spent(Sandbox& sandbox) {
  const egress::Amount& used = sandbox.budget->state().used;
  sandbox.kept.budget.used_tokens = used.tokens;
  sandbox.kept.budget.used_nano_usd = used.cost;
}

std::shared_ptr<egress::Gateway> FleetImpl::gateway_of(const SandboxPtr& sandbox) {
  if (!sandbox->kept.models || options_.models.empty()) return nullptr;
  auto gateway = std::make_shared<egress::Gateway>();
  gateway->providers = options_.models;
  gateway->prices = options_.prices;
  gateway->budget = sandbox->budget;
  const std::weak_ptr<FleetImpl*> fleet = alive();
  const Passed weak = sandbox;
  gateway->called = [fleet, weak](const egress::LlmCall& call) {
    const auto self = fleet.lock();
    const auto kept = weak.lock();
    if (self && kept) (*self)->model_called(*kept, call);
  };
  gateway->exceeded = [fleet, weak](const egress::BudgetRefusal&) {
    const auto self = fleet.lock();
    const auto kept = weak.lock();
    if (self && kept) (*self)->budget_exceeded(kept);
  };
  return gateway;
}

void FleetImpl::model_called(Sandbox& sandbox, const egress::LlmCall& call) {
  counters_.model_calls += 1;
  counters_.model_tokens +=
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, call.amount.tokens));
  keep_spent(sandbox);
  Audited audit(*this, own_row(sandbox, "guest", "llm.call", cut_text(call.model, kModelShownMax)));
  // A call that cost nothing changes no account, and a guest can make it without end.
  if (call.amount.tokens != 0 || call.amount.cost != 0) {
    store::Store::Batch batch;
    if (sandbox.state != State::Ended) batch.sandboxes.push_back(stored(sandbox));
    keep_payers(sandbox, batch);
    batch.sandboxes.push_back(account(sandbox.tenant));
    post(std::move(batch));
  }
  if (!within_budget(audit)) return;
  audit.detail["provider"] = to_string(call.provider);
  audit.detail["path"] = cut_text(call.path, 256);
  audit.detail["status"] = call.status;
  audit.detail["tokens"] = call.amount.tokens;
  audit.detail["cost_usd"] = static_cast<double>(call.amount.cost) / kNanosPerUsd;
  audit.detail["input_tokens"] = call.usage.input;
  audit.detail["output_tokens"] = call.usage.output;
  if (call.reading) audit.detail["reading"] = egress::to_string(*call.reading);
  audit.detail["seconds"] = std::chrono::duration<double>(call.lasted).count();
  audit.judge(nullptr);
  if (call.refusal.empty()) return;
  audit.detail["message"] = cut_text(call.refusal, 512);
  audit.row.outcome = call.reading ? store::Outcome::Failed : store::Outcome::Denied;
}

// In a turn of its own: whoever found out is still busy with the answer.
void FleetImpl::budget_exceeded(const SandboxPtr& sandbox) {
  if (!sandbox->kept.budget.stop) return;
  boost::asio::post(executor_, [fleet = alive(), weak = Passed(sandbox)] {
    const auto self = fleet.lock();
    const auto kept = weak.lock();
    if (self && kept) (*self)->end(kept, "budget", "server");
  });
}

awaitable<Result<UsageView>> FleetImpl::record_usage(const Caller& caller, std::string id,
                                                     UsageWish wish) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const SandboxPtr sandbox = *found;
  Audited audit(*this, row(caller, "usage.record", sandbox->id, ""));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  audit.detail["tokens"] = wish.tokens;
  audit.detail["cost_usd"] = wish.cost_usd;
  Result<void> counted = sandbox->budget->record_tokens(wish.tokens);
  if (counted) counted = sandbox->budget->record_cost(wish.cost_usd);
  keep_spent(*sandbox);
  audit.judge(counted ? nullptr : &counted.error());
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  if (sandbox->state != State::Ended) batch.sandboxes.push_back(stored(*sandbox));
  keep_payers(*sandbox, batch);
  batch.sandboxes.push_back(account(sandbox->tenant));
  auto written = co_await record(std::move(batch));
  audit.written();
  if (!written) co_return std::unexpected(written.error());
  if (!counted) co_return std::unexpected(counted.error());
  auto view = co_await usage(caller, std::move(id));
  if (sandbox->budget->passed()) budget_exceeded(sandbox);
  co_return view;
}

}  // namespace caisson::control
