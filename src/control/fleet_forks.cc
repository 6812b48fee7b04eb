// Forks: a new sandbox on the files of another one, with its rules, and no more to spend than that
// one has left.
#include <fmt/format.h>

#include <algorithm>

#include "control/fleet_impl.h"
#include "control/sandbox_spec.h"
#include "control/shield.h"

namespace caisson::control {
namespace {

// What is left of a limit; 0 means that there is none.
Result<std::uint64_t> left_of(std::uint64_t limit, std::uint64_t used, std::string_view what) {
  if (limit == 0) return 0;
  if (used < limit) return limit - used;
  return failure(Errc::Exhausted,
                 fmt::format("fork: the sandbox has used up its {}; a fork would have none", what));
}

std::optional<std::int64_t> left_of(std::optional<std::int64_t> limit, std::int64_t used) {
  if (!limit) return std::nullopt;
  return std::max<std::int64_t>(0, *limit - used);
}

}  // namespace

// The sandbox once more, as its record has it.
SandboxPlan FleetImpl::plan_again(const Sandbox& sandbox) const {
  const KeptSpec& kept = sandbox.kept;
  SandboxPlan plan;
  plan.name = kept.name;
  plan.profile = kept.profile;
  plan.image = kept.image;
  plan.tools = kept.tools;
  plan.labels = kept.labels;
  plan.environment = kept.environment;
  plan.workdir = kept.workdir;
  plan.idle_seconds = kept.idle_seconds;
  plan.rest_seconds = kept.rest_seconds;
  plan.models = kept.models;
  plan.token = kept.token;
  plan.proxy = kept.proxy;
  plan.budget.max_tokens = kept.budget.max_tokens;
  if (kept.budget.max_cost_nano_usd)
    plan.budget.max_cost_usd = static_cast<double>(*kept.budget.max_cost_nano_usd) / 1e9;
  plan.budget.stop = kept.budget.stop;
  plan.persistent = kept.persistent;
  plan.checkpoint = kept.checkpoint;
  plan.volumes = kept.volumes;
  plan.interpreters = kept.interpreters;
  plan.payer = kept.payer;
  plan.base.image = kept.image;
  plan.base.stack = kept.stack;
  plan.base.base_layers = kept.base_layers;
  if (kept.image != "host") plan.base.defaults = kept.defaults;
  plan.base.parent = kept.parent;
  plan.base.head = kept.head;
  plan.spec.tier = kept.tier;
  plan.spec.egress = kept.network;
  // What its parent could be allowed later, it can, too.
  plan.authority_for_every_name =
      kept.authority && kept.authority->domains == std::vector{std::string(policy::kEveryName)};
  plan.spec.gateway = (kept.models && !options_.models.empty()) || kept.proxy.place;
  engine::LaunchRequest& request = plan.spec.request;
  request.limits = sandbox.limits;
  request.stack = kept.stack;
  if (kept.proxy.place) request.gate_proxy = kept.proxy.place->port;
  request.storage = kept.storage;
  request.root = kept.root;
  request.uid = kept.uid;
  request.gid = kept.gid;
  request.root_capabilities = kept.root_capabilities;
  request.hostname = kept.hostname;
  request.writable = kept.folders;
  request.aliases = kept.aliases;
  return plan;
}

awaitable<Result<SandboxView>> FleetImpl::fork(const Caller& caller, std::string id,
                                               ForkWish wish) {
  auto parent = find(caller, id);
  if (!parent) co_return std::unexpected(parent.error());
  co_return co_await shielded(executor_, fork_now(caller, *parent, std::move(wish)));
}

awaitable<Result<SandboxView>> FleetImpl::fork_now(Caller caller, SandboxPtr kept, ForkWish wish) {
  const Use parent(std::move(kept));
  Audited audit(*this, row(caller, "sandbox.fork", "", wish.name));
  audit.detail["parent"] = parent->id;
  const auto refuse = [this](const Error& error) -> Result<SandboxView> {
    ++counters_.failed;
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  const bool memory = wish.memory.value_or(false);
  if (const auto good = check_name_and_labels(wish.name, wish.labels); !good)
    co_return co_await settle(audit, refuse(good.error()));
  if (wish.hostname) {
    if (const auto good = check_hostname(*wish.hostname); !good)
      co_return co_await settle(audit, refuse(good.error()));
  }
  const auto strong = above_minimum(parent->tenant, plan_again(*parent), "promote this one first");
  if (!strong) co_return co_await settle(audit, refuse(strong.error()));
  auto place = reserve(caller, wish.name);
  if (!place) co_return co_await settle(audit, refuse(place.error()));
  auto point =
      memory ? co_await fork_point_with_memory(parent.ptr()) : co_await fork_point(parent.ptr());
  if (!point) co_return co_await settle(audit, refuse(explain(*parent, point.error())));
  const auto hold = files_.works.hold(point->stack.layers);
  const std::string snapshot = point->id;
  auto plan = co_await fork_plan(parent.ptr(), *std::move(point), std::move(wish));
  Result<SandboxPtr> launched;
  if (plan) {
    const auto volumes = hold_volumes(parent->tenant, *plan);
    launched = co_await launch(caller, *std::move(plan), *std::move(place));
  } else {
    launched = std::unexpected(explain(*parent, plan.error()));
  }
  if (memory) co_await spend_memory(snapshot);
  if (!launched) {
    tidy_soon();
    co_return co_await settle(audit, refuse(launched.error()));
  }
  co_return co_await enroll(*launched, audit, "sandbox.forked");
}

// Whoever waits for his turn when a seal begins has the same files as all the others who wait: they
// share it. Who comes later must not, as something may have been written since.
awaitable<Result<SnapshotRecord>> FleetImpl::fork_point(SandboxPtr parent) {
  if (!parent->next_fork)
    parent->next_fork = std::make_shared<std::optional<Result<SnapshotRecord>>>();
  const auto shared = parent->next_fork;
  auto turn = co_await parent->files->take();
  if (!turn) co_return std::unexpected(turn.error());
  if (!*shared) {
    if (parent->next_fork == shared) parent->next_fork.reset();
    SealWish want;
    want.hidden = true;
    want.row = SealRow::Behind;  // that of the fork comes after it, and is waited for
    *shared = co_await seal(parent, std::move(want), nullptr);
  }
  co_return **shared;
}

// Of this moment and for this fork alone.
awaitable<Result<SnapshotRecord>> FleetImpl::fork_point_with_memory(SandboxPtr parent) {
  auto turn = co_await parent->files->take();
  if (!turn) co_return std::unexpected(turn.error());
  SealWish want;
  want.hidden = true;
  want.memory = SealMemory::GoesOn;
  want.row = SealRow::Behind;
  co_return co_await seal(parent, std::move(want), nullptr);
}

awaitable<Result<SandboxPlan>> FleetImpl::fork_plan(SandboxPtr parent, SnapshotRecord point,
                                                    ForkWish wish) {
  SandboxPlan plan = plan_again(*parent);
  plan.name = std::move(wish.name);
  plan.labels.erase(std::string(kPublicLabel));  // nobody has shown this one to everybody
  for (auto& [name, value] : wish.labels) plan.labels[name] = std::move(value);
  plan.payer = parent->id;
  plan.base.stack = point.stack;
  plan.base.base_layers = point.base_layers;
  plan.base.parent = parent->id;
  plan.base.head = point.id;
  engine::LaunchRequest& request = plan.spec.request;
  request.stack = std::move(point.stack);
  if (point.memory) {
    request.memory = {point.memory->name, point.memory->digest, point.memory->runtime, false};
    plan.commands = parent->commands;
    plan.spec.ports_inside = parent->kept.ports_inside;
  }
  request.hostname = wish.hostname.value_or("");  // its id, whatever the first is called
  const egress::Amount& used = parent->budget->state().used;
  plan.budget.max_tokens = left_of(parent->kept.budget.max_tokens, used.tokens);
  if (const auto money = left_of(parent->kept.budget.max_cost_nano_usd, used.cost))
    plan.budget.max_cost_usd = static_cast<double>(*money) / 1e9;
  const auto lived = duration_cast<microseconds>(Clock::now() - parent->started).count();
  const auto life =
      left_of(parent->limits.life_us, static_cast<std::uint64_t>(lived), "time to live");
  if (!life) co_return std::unexpected(life.error());
  request.limits.life_us = *life;
  if (parent->limits.cpu_time_us != 0) {
    const auto status = co_await launcher_->status(parent->id);
    if (!status) co_return std::unexpected(status.error());
    const auto cpu = left_of(parent->limits.cpu_time_us,
                             parent->kept.cpu_used_us + status->usage.cpu_time_us, "CPU time");
    if (!cpu) co_return std::unexpected(cpu.error());
    request.limits.cpu_time_us = *cpu;
  }
  if (const auto mounted = mount_volumes(parent->tenant, plan); !mounted)
    co_return std::unexpected(mounted.error());
  co_return plan;
}

}  // namespace caisson::control
