// A sandbox moves into a stronger tier: the same id, name, labels, limits, rules, budget and files,
// behind another kernel. Processes do not move; they end.
//
// Files on disk stay where they are: the sandbox is stopped and started again on them, as a
// persistent one is. Files in memory, and those that a microVM will see, are sealed first and
// become its lowest state. Whatever cannot be carried is refused before anything ends; when the new
// tier cannot start it after all, it goes on in its old one.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "control/fleet_impl.h"
#include "control/sandbox_spec.h"
#include "control/shield.h"
#include "control/text.h"
#include "engine/plan.h"

namespace caisson::control {
namespace {

using policy::SandboxTier;

constexpr milliseconds kCallsWait{2'000};
constexpr milliseconds kCallsLook{10};

Error cannot_carry(std::string_view what, std::string_view why) {
  return Error{Errc::Unsupported, fmt::format("tier: {} cannot go into a microVM: {}", what, why),
               0, "tier"};
}

std::uint64_t since(TimePoint start) {
  return static_cast<std::uint64_t>(duration_cast<microseconds>(Clock::now() - start).count());
}

// What is left of a limit. A limit that is used up ends the sandbox a moment later, as it would
// have done where it was.
std::uint64_t left_of(std::uint64_t limit, std::uint64_t used) {
  return limit == 0 ? 0 : std::max<std::uint64_t>(1, limit - std::min(limit, used));
}

}  // namespace

SandboxTier FleetImpl::minimum_tier(std::string_view tenant) const {
  return minimum_of(options_.minimum, tenant, "", "").tier;
}

Result<void> FleetImpl::above_minimum(const std::string& tenant, const SandboxPlan& plan,
                                      std::string_view remedy) const {
  return check_minimum(minimum_of(options_.minimum, tenant, plan.image, plan.profile),
                       plan.spec.tier, remedy);
}

// The launcher counts a sandbox's life from its last start.
engine::Limits FleetImpl::launcher_limits(const Sandbox& sandbox, engine::Limits limits) {
  limits.life_us = left_of(limits.life_us, sandbox.kept.lived_us);
  limits.cpu_time_us = left_of(limits.cpu_time_us, sandbox.kept.cpu_used_us);
  return limits;
}

Result<SandboxPlan> FleetImpl::plan_higher(const Sandbox& sandbox, const std::string& tier) {
  const auto wanted = policy::parse_sandbox_tier(tier);
  if (!wanted)
    return bad_field(
        "tier", fmt::format("tier is '{}': want native, gvisor or microvm", cut_text(tier, 64)));
  if (*wanted <= sandbox.kept.tier)
    return bad_field("tier",
                     fmt::format("tier is '{}': want one that is stronger than '{}', which "
                                 "the sandbox has; for another one create a sandbox from a "
                                 "snapshot of it",
                                 engine::tier_name(*wanted), engine::tier_name(sandbox.kept.tier)));
  SandboxPlan plan = plan_again(sandbox);
  plan.spec.tier = *wanted;
  TRY(above_minimum(sandbox.tenant, plan, "name that tier"));
  if (*wanted == SandboxTier::Microvm) {
    if (plan.persistent)
      return std::unexpected(cannot_carry("a persistent sandbox", "its disk goes with it"));
    if (plan.checkpoint == Checkpoints::EachCall)
      return std::unexpected(cannot_carry("checkpoint: each_call", "it has no snapshots"));
    if (!plan.volumes.empty())
      return std::unexpected(cannot_carry("a sandbox with volumes", "it shares none"));
  }
  plan.spec.request.id = sandbox.id;
  TRY(engine::plan(plan.spec, host_));
  return plan;
}

// As undo does: what runs is ended only when somebody says so.
awaitable<Result<void>> FleetImpl::quiet_enough(SandboxPtr sandbox, bool end_processes) {
  const auto there = co_await sandbox->guest->processes();
  if (!there) co_return std::unexpected(there.error());
  const auto running = std::ranges::count_if(*there, &engine::GuestProcess::running);
  if (running == 0) co_return Result<void>();
  if (!end_processes)
    co_return failure(Errc::Busy,
                      fmt::format("{} process{} in it and would end; say end_processes: true",
                                  running, running == 1 ? " runs" : "es run"));
  co_return co_await end_guest_processes(sandbox);
}

// A call that began before may write behind the copy of its files, and be told that it has. The
// caller's own use is one; calls of processes that were ended are over in a moment.
awaitable<Result<void>> FleetImpl::calls_over(SandboxPtr sandbox, bool wait) {
  const TimePoint deadline = Clock::now() + kCallsWait;
  while (wait && sandbox->uses > 1 && Clock::now() < deadline) {
    boost::asio::steady_timer pause(executor_, kCallsLook);
    co_await pause.async_wait(boost::asio::use_awaitable);
  }
  if (sandbox->uses > 1)
    co_return failure(Errc::Busy, fmt::format("calls are under way in the sandbox; wait for them{}",
                                              wait ? "" : ", or say end_processes: true"));
  co_return still(*sandbox);
}

awaitable<Result<SandboxView>> FleetImpl::promote(const Caller& caller, std::string id,
                                                  PromoteWish wish) {
  auto sandbox = find(caller, id);
  if (!sandbox) co_return std::unexpected(sandbox.error());
  co_return co_await shielded(executor_, promote_now(caller, *sandbox, std::move(wish)));
}

awaitable<Result<SandboxView>> FleetImpl::promote_now(Caller caller, SandboxPtr sandbox,
                                                      PromoteWish wish) {
  Audited audit(*this, row(caller, "sandbox.promote", sandbox->id, wish.tier));
  audit.detail["from"] = engine::tier_name(sandbox->kept.tier);
  const auto refuse = [](const Error& error) -> Result<SandboxView> {
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  if (const auto may = lasting(*sandbox); !may)
    co_return co_await settle(audit, refuse(may.error()));
  auto turn = co_await sandbox->files->take();
  if (!turn) co_return co_await settle(audit, refuse(turn.error()));
  if (const auto same = still(*sandbox); !same)
    co_return co_await settle(audit, refuse(same.error()));
  if (sandbox->changing)
    co_return co_await settle(
        audit, refuse(Error{Errc::Busy, "the sandbox is being changed; try again", 0}));
  const Moving moving(sandbox);  // from the plan on until the new one is the sandbox
  if (hibernates(*sandbox))      // its processes can go on in this tier alone
    co_return co_await settle(audit, refuse(awake(*sandbox).error()));
  auto plan = plan_higher(*sandbox, wish.tier);
  if (!plan) co_return co_await settle(audit, refuse(plan.error()));
  SandboxPtr now = sandbox;
  if (sandbox->state == State::Stopped) {
    // Its next start is in the new tier.
    sandbox->kept.tier = plan->spec.tier;
    sandbox->record.tier = engine::tier_name(plan->spec.tier);
  } else {
    auto moved = co_await move_up(caller, sandbox, *std::move(plan), wish.end_processes);
    if (!moved) co_return co_await settle(audit, refuse(explain(*sandbox, moved.error())));
    now = *moved;
  }
  audit.judge(nullptr);
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  batch.sandboxes.push_back(stored(*now));
  const auto written = co_await record(std::move(batch));
  audit.written();
  tidy_soon();
  if (!written) co_return refuse(written.error());
  events_.add(
      "sandbox.promoted", now->tenant, now->id,
      {{"from", std::string(audit.detail.at("from").as_string())}, {"tier", now->record.tier}});
  co_return view(*now);
}

// The caller has the turn of its files.
awaitable<Result<SandboxPtr>> FleetImpl::move_up(const Caller& caller, SandboxPtr sandbox,
                                                 SandboxPlan plan, bool end_processes) {
  const Use use(sandbox);
  const std::string tier(engine::tier_name(plan.spec.tier));
  if (const auto up = co_await woken(sandbox); !up) co_return std::unexpected(up.error());
  const auto quiet = co_await quiet_enough(sandbox, end_processes);
  if (!quiet) co_return std::unexpected(quiet.error());
  if (const auto calm = co_await calls_over(sandbox, end_processes); !calm)
    co_return std::unexpected(calm.error());
  const auto status = co_await launcher_->status(sandbox->id);
  if (!status) co_return std::unexpected(status.error());
  const bool stays =
      plan.spec.request.storage == engine::Storage::Disk && plan.spec.tier != SandboxTier::Microvm;
  engine::LaunchRequest& request = plan.spec.request;
  if (!stays) {
    SealWish want;
    want.hidden = true;
    const auto sealed = co_await seal(sandbox, std::move(want), nullptr);
    if (!sealed) co_return std::unexpected(sealed.error());
    plan.base.stack = request.stack = sealed->stack;
    plan.base.head = sealed->id;
  }
  request.resume = stays;
  const auto hold = files_.works.hold(request.stack.layers);
  const std::uint64_t lived = since(sandbox->started);  // in whatever tiers
  const std::uint64_t cpu = sandbox->kept.cpu_used_us + status->usage.cpu_time_us;
  request.limits.life_us = left_of(request.limits.life_us, lived);
  request.limits.cpu_time_us = left_of(request.limits.cpu_time_us, cpu);
  if (const auto mounted = mount_volumes(sandbox->tenant, plan); !mounted)
    co_return std::unexpected(mounted.error());

  halt(sandbox, "it moves into the tier " + tier);
  const auto gone =
      stays ? co_await launcher_->stop(sandbox->id) : co_await launcher_->destroy(sandbox->id);
  SandboxPlan back = plan;
  back.spec.tier = sandbox->kept.tier;
  Result<SandboxPtr> fresh = std::unexpected(gone ? Error{} : gone.error());
  if (gone) fresh = co_await launch(caller, std::move(plan), nullptr, sandbox);
  const auto failed = fresh ? std::nullopt : std::optional(fresh.error());
  if (failed) fresh = co_await launch(caller, std::move(back), nullptr, sandbox);
  if (!fresh || sandbox->state == State::Ended || stopping_)
    co_return co_await left_behind(sandbox, fresh ? *fresh : nullptr, failed);
  (*fresh)->kept.lived_us = lived;
  (*fresh)->kept.cpu_used_us = cpu;
  (*fresh)->started = Clock::now() - microseconds(static_cast<std::int64_t>(lived));
  (*fresh)->limits = sandbox->limits;
  take_place(*fresh, sandbox);
  if (!failed) co_return *fresh;
  store::Store::Batch batch;
  batch.sandboxes.push_back(stored(**fresh));
  post(std::move(batch));
  co_return std::unexpected(
      failed->within(fmt::format("tier '{}': it goes on in '{}', without its processes", tier,
                                 engine::tier_name(sandbox->kept.tier))));
}

// The one that was started anew is the sandbox from here on: calls that still hold the old object
// see it stopped.
void FleetImpl::take_place(const SandboxPtr& fresh, const SandboxPtr& old) {
  fresh->token = old->token;
  fresh->created = old->created;
  fresh->kept.budget = old->kept.budget;
  if (fresh->kept.persistent) fresh->kept.limits = fresh->limits;
  fresh->place = std::move(old->place);
  fresh->files = old->files;
  fresh->session = old->session;
  fresh->execs = old->execs;
  old->replaced = true;
  old->kept.hibernated.clear();  // whoever waits to wake it finds that it is another one
  publish(fresh);
}

// It could be started in neither tier, or was destroyed meanwhile. A persistent one stays, stopped.
awaitable<Result<SandboxPtr>> FleetImpl::left_behind(SandboxPtr sandbox, SandboxPtr fresh,
                                                     std::optional<Error> failed) {
  if (fresh) {
    close_gate(*fresh);
    fresh->guest->close(Error{Errc::Gone, "the sandbox was destroyed", 0});
    co_await clear_away(sandbox->id);
  }
  if (sandbox->state == State::Ended || stopping_)
    co_return failure(Errc::Gone, "the sandbox was destroyed");
  if (!sandbox->kept.persistent) {
    retire(sandbox, "it could not be started again");
    sandbox->place.reset();
  }
  store::Store::Batch batch;
  batch.sandboxes.push_back(stored(*sandbox));
  post(std::move(batch));
  co_return std::unexpected(failed ? *failed : Error{Errc::Internal, "it could not be started", 0});
}

}  // namespace caisson::control
