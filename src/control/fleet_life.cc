// The sandbox as a whole: get, list, destroy, pause, resume, limits, usage; and its end.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "control/fleet_impl.h"
#include "control/sandbox_spec.h"
#include "control/shield.h"
#include "control/text.h"

namespace caisson::control {

std::string_view to_string(State state) noexcept {
  switch (state) {
    case State::Creating:
      return "creating";
    case State::Running:
      return "running";
    case State::Paused:
      return "paused";
    case State::Hibernated:
      return "hibernated";
    case State::Stopped:
      return "stopped";
    case State::Ended:
      return "ended";
  }
  return "unknown";
}

// A foreign sandbox, one that ended and one that never was are the same answer.
Result<SandboxPtr> FleetImpl::find(const Caller& caller, std::string_view id) const {
  if (stopping_) return failure(Errc::Gone, "the server ends");
  const auto at = living_.find(id);
  if (at != living_.end() && at->second->tenant == caller.tenant) return at->second;
  if (!launcher_->connected())
    return failure(Errc::LauncherGone, "the launcher is away, and its sandboxes with it");
  return failure(Errc::NotFound, "sandbox '" + cut_text(id, 64) + "' does not exist, or has ended");
}

Result<void> FleetImpl::still(const Sandbox& sandbox) const {
  if (sandbox.state == State::Ended) return std::unexpected(explain(sandbox, Error{}));
  if (!sandbox.replaced) return {};
  return failure(Errc::Busy, "sandbox '" + sandbox.id + "' was just started anew; try again");
}

awaitable<Result<Turns::Turn>> FleetImpl::unmoved(SandboxPtr sandbox) {
  Turns::Turn turn;
  if (sandbox->state == State::Stopped || sandbox->hibernating) {
    auto taken = co_await sandbox->waking->take();
    if (!taken) co_return std::unexpected(taken.error());
    turn = *std::move(taken);
  }
  if (const auto same = still(*sandbox); !same) co_return std::unexpected(same.error());
  if (sandbox->moving)
    co_return failure(Errc::Busy,
                      "sandbox '" + sandbox->id + "' moves into another tier; try again");
  co_return turn;
}

Result<void> FleetImpl::awake(const Sandbox& sandbox) {
  if (sandbox.replaced)
    return failure(Errc::Busy, "sandbox '" + sandbox.id + "' was just started anew; try again");
  if (hibernates(sandbox))
    return failure(Errc::Busy, "sandbox '" + sandbox.id + "' is hibernated; resume it first");
  if (sandbox.state == State::Stopped)
    return failure(Errc::Busy, "sandbox '" + sandbox.id + "' is stopped; start it first");
  if (sandbox.state != State::Paused && sandbox.guest) return {};
  return failure(Errc::Busy, "sandbox '" + sandbox.id + "' is paused; resume it first");
}

awaitable<Result<SandboxPtr>> FleetImpl::running(const Caller& caller, const std::string& id) {
  auto sandbox = find(caller, id);
  if (!sandbox) co_return sandbox;
  if (const auto up = co_await woken(*sandbox); !up) co_return std::unexpected(up.error());
  co_return sandbox;
}

SandboxView FleetImpl::view(const Sandbox& sandbox) const {
  SandboxView out;
  out.id = sandbox.id;
  out.name = sandbox.kept.name;
  out.tenant = sandbox.tenant;
  out.state = hibernates(sandbox) ? State::Hibernated : sandbox.state;
  out.profile = sandbox.kept.profile;
  out.image = sandbox.kept.image;
  out.tools = sandbox.kept.tools;
  out.limits = sandbox.limits;
  out.root = sandbox.kept.root;
  out.uid = sandbox.kept.uid;
  out.root_capabilities = sandbox.kept.root_capabilities;
  out.workdir = sandbox.kept.workdir;
  out.hostname = sandbox.kept.hostname;
  const KeptBudget& budget = sandbox.kept.budget;
  out.budget.max_tokens = budget.max_tokens;
  if (budget.max_cost_nano_usd)
    out.budget.max_cost_usd = static_cast<double>(*budget.max_cost_nano_usd) / 1e9;
  out.budget.stop = budget.stop;
  out.labels = sandbox.kept.labels;
  out.network = sandbox.kept.network;
  out.created = sandbox.created;
  // The launcher's monotonic clock decides. What a person reads is counted from the record, so that
  // it is the same at every look and to the next server.
  if (sandbox.limits.life_us != 0)
    out.expires = sandbox.created + static_cast<store::WallTime>(sandbox.limits.life_us);
  out.idle_seconds = sandbox.kept.idle_seconds;
  out.rest_seconds = sandbox.kept.rest_seconds;
  out.resting = is_resting(sandbox);
  out.record = sandbox.record;
  out.parent = sandbox.kept.parent;
  out.storage = sandbox.kept.storage;
  out.persistent = sandbox.kept.persistent;
  out.checkpoint = sandbox.kept.checkpoint;
  out.volumes = sandbox.kept.volumes;
  out.interpreters = sandbox.kept.interpreters;
  out.end_reason = sandbox.end_reason;
  return out;
}

Result<SandboxView> FleetImpl::get(const Caller& caller, std::string_view id) {
  return view(*TRY(find(caller, id)));
}

Result<SandboxView> FleetImpl::look_up(std::string_view id) {
  const auto at = living_.find(id);
  if (stopping_ || at == living_.end()) return failure(Errc::NotFound, "no such sandbox");
  return view(*at->second);
}

std::size_t FleetImpl::living_of(std::string_view tenant) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      living_, [&](const auto& one) { return one.second->tenant == tenant; }));
}

std::vector<SandboxView> FleetImpl::list(const Caller& caller) {
  std::vector<SandboxView> out;
  for (const auto& [id, sandbox] : living_) {
    if (sandbox->tenant == caller.tenant) out.push_back(view(*sandbox));
  }
  std::ranges::sort(out, {}, [](const SandboxView& one) { return std::pair(one.created, one.id); });
  return out;
}

void FleetImpl::retire(const SandboxPtr& sandbox, std::string reason) {
  if (sandbox->state == State::Ended) return;
  sandbox->state = State::Ended;
  sandbox->end_reason = std::move(reason);
  unschedule(*sandbox);
  close_gate(*sandbox);
  living_.erase(sandbox->id);
  ++counters_.ended;
  if (sandbox->guest)
    sandbox->guest->close(
        Error{Errc::Gone, "sandbox '" + sandbox->id + "' ended: " + sandbox->end_reason, 0});
  events_.add("sandbox.ended", sandbox->tenant, sandbox->id, {{"reason", sandbox->end_reason}});
}

void FleetImpl::end(const SandboxPtr& sandbox, const std::string& reason, std::string actor) {
  if (sandbox->state == State::Ended || sandbox->state == State::Stopped) return;
  if (sandbox->kept.persistent) return lay_down(sandbox, reason, std::move(actor));
  retire(sandbox, reason);
  store::Store::Batch batch;
  batch.sandboxes.push_back(stored(*sandbox));
  batch.audit.push_back(own_row(*sandbox, std::move(actor), "sandbox.end", reason));
  post(std::move(batch));
  sandbox->place.reset();
  boost::asio::co_spawn(executor_, clear_away(sandbox->id), boost::asio::detached);
  tidy_soon();
}

// Whatever the launcher still has of it. That it has nothing any more is as good.
awaitable<void> FleetImpl::clear_away(std::string id) {
  (void)co_await launcher_->destroy(std::move(id));
}

awaitable<Result<void>> FleetImpl::destroy(const Caller& caller, std::string id) {
  auto sandbox = find(caller, id);
  if (!sandbox) co_return std::unexpected(sandbox.error());
  auto works = co_await store_works();
  if (!works) co_return std::unexpected(works.error());
  co_return co_await shielded(executor_, destroy_now(caller, *sandbox));
}

awaitable<Result<void>> FleetImpl::destroy_now(Caller caller, SandboxPtr sandbox) {
  if (sandbox->state == State::Ended)
    co_return failure(Errc::NotFound, "sandbox '" + sandbox->id + "' does not exist, or has ended");
  Audited audit(*this, row(caller, "sandbox.destroy", sandbox->id, sandbox->kept.name));
  const bool stopped = sandbox->state == State::Stopped;
  retire(sandbox, "destroyed");
  auto status = co_await launcher_->destroy(sandbox->id);
  if (stopped && !status && status.error().code == Errc::NotFound) {
    const auto dropped = co_await launcher_->drop(engine::StoreEntry::Kind::Upper, sandbox->id);
    if (!dropped) status = std::unexpected(dropped.error());
  }
  sandbox->place.reset();
  if (status) {
    audit.detail["cpu_us"] = status->usage.cpu_time_us;
    audit.detail["memory_peak_bytes"] = status->usage.memory_peak_bytes;
  }
  const bool fails = !status && status.error().code != Errc::NotFound &&
                     status.error().code != Errc::LauncherGone && status.error().code != Errc::Gone;
  audit.judge(fails ? &status.error() : nullptr);
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  batch.sandboxes.push_back(stored(*sandbox));
  auto written = co_await record(std::move(batch));
  audit.written();
  tidy_soon();
  if (fails) co_return std::unexpected(status.error());
  co_return written;
}

awaitable<Result<SandboxView>> FleetImpl::pause(const Caller& caller, std::string id) {
  auto sandbox = find(caller, id);
  if (!sandbox) co_return std::unexpected(sandbox.error());
  co_return co_await shielded(executor_, freeze_or_thaw(caller, *sandbox, true));
}

awaitable<Result<SandboxView>> FleetImpl::resume(const Caller& caller, std::string id) {
  auto sandbox = find(caller, id);
  if (!sandbox) co_return std::unexpected(sandbox.error());
  if (hibernates(**sandbox)) {
    Audited audit(*this, row(caller, "sandbox.resume", id, ""));
    auto works = co_await store_works(audit);
    if (!works) co_return std::unexpected(works.error());
    const auto up = co_await end_hibernation(*sandbox);
    Result<SandboxView> result;
    if (up) {
      result = view(**sandbox);
    } else {
      result = std::unexpected(up.error());
    }
    co_return co_await settle(audit, std::move(result));
  }
  co_return co_await shielded(executor_, freeze_or_thaw(caller, *sandbox, false));
}

awaitable<Result<SandboxView>> FleetImpl::freeze_or_thaw(Caller caller, SandboxPtr sandbox,
                                                         bool freeze) {
  const auto busy = [&sandbox] { return sandbox->changing || sandbox->restacking; };
  const auto try_again = [&sandbox] {
    return failure(Errc::Busy, "sandbox '" + sandbox->id + "' is being changed; try again");
  };
  if (const auto may = lasting(*sandbox); !may) co_return std::unexpected(may.error());
  if (sandbox->state != State::Stopped && busy()) co_return try_again();
  const auto turn = co_await sandbox->waking->take();  // a rest that begins or ends is waited for
  if (!turn) co_return std::unexpected(turn.error());
  if (sandbox->state == State::Stopped) co_return std::unexpected(awake(*sandbox).error());
  if (busy()) co_return try_again();
  if (!freeze && sandbox->state == State::Running) {
    if (const auto up = co_await end_rest(sandbox); !up) co_return std::unexpected(up.error());
  }
  const State wanted = freeze ? State::Paused : State::Running;
  if (sandbox->state == wanted && (freeze || sandbox->guest)) co_return view(*sandbox);
  Audited audit(*this, row(caller, freeze ? "sandbox.pause" : "sandbox.resume", sandbox->id, ""));
  sandbox->changing = true;  // before the first wait: a second caller sees it
  auto works = co_await store_works(audit);
  if (!works) {
    sandbox->changing = false;
    co_return std::unexpected(works.error());
  }
  Result<void> done =
      freeze ? co_await launcher_->freeze(sandbox->id) : co_await launcher_->thaw(sandbox->id);
  if (done && !freeze && !sandbox->guest) {
    done = co_await rejoin(sandbox);
    if (done) follow_guest(sandbox);
  }
  sandbox->changing = false;
  if (sandbox->state == State::Ended) {
    if (sandbox->guest) sandbox->guest->close(explain(*sandbox, Error{}));
    done = std::unexpected(explain(*sandbox, Error{}));
  }
  if (done) {
    sandbox->kept.paused = freeze;
    sandbox->rest = Rest::None;  // who rested stands still for his caller now
    store::Store::Batch batch;
    batch.sandboxes.push_back(stored(*sandbox));
    post(std::move(batch));  // the row of the call comes behind it, and is waited for
    sandbox->state = wanted;
    sandbox->last_use = Clock::now();
    schedule(*sandbox);
    events_.add(freeze ? "sandbox.paused" : "sandbox.resumed", sandbox->tenant, sandbox->id);
  }
  Result<SandboxView> result;
  if (done) {
    result = view(*sandbox);
  } else {
    result = std::unexpected(done.error());
  }
  co_return co_await settle(audit, std::move(result));
}

namespace {

// Nobody asks the launcher about one that hibernates: what it refuses of one that runs would be
// refused when this one is woken.
Result<void> check_asleep(const Sandbox& sandbox, const engine::Limits& limits) {
  const auto fixed = [](const char* name) {
    const std::string field = std::string("resource_limits.") + name;
    return std::unexpected(Error{Errc::Unsupported,
                                 field + ": is fixed when a sandbox of this tier is made; create "
                                         "another one",
                                 0, field});
  };
  if (!hibernates(sandbox)) return {};
  if (limits.processes != sandbox.limits.processes) return fixed("processes");
  const bool machine = sandbox.kept.tier == policy::SandboxTier::Microvm;
  if (machine && limits.memory_bytes != sandbox.limits.memory_bytes) return fixed("memory_mb");
  return {};
}

}  // namespace

awaitable<Result<SandboxView>> FleetImpl::set_limits(const Caller& caller, std::string id,
                                                     LimitWish wish) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, row(caller, "sandbox.limits", sandbox->id, ""));
  const auto refuse = [](const Error& error) -> Result<SandboxView> {
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  const auto turn = co_await unmoved(sandbox.ptr());
  if (!turn) co_return co_await settle(audit, refuse(turn.error()));
  auto changed =
      change_limits({sandbox->limits, sandbox->kept.idle_seconds, sandbox->kept.rest_seconds}, wish,
                    options_.limits_max);
  if (!changed) co_return co_await settle(audit, refuse(changed.error()));
  if (const auto may = check_asleep(*sandbox, changed->limits); !may)
    co_return co_await settle(audit, refuse(may.error()));
  if (sandbox->changing)
    co_return co_await settle(
        audit, refuse(Error{Errc::Busy, "the sandbox is being changed; try again", 0}));
  sandbox->changing = true;
  Result<void> done;
  if (changed->limits != sandbox->limits && sandbox->state != State::Stopped)
    done = co_await launcher_->set_limits(sandbox->id, launcher_limits(*sandbox, changed->limits));
  sandbox->changing = false;
  if (!done) co_return co_await settle(audit, refuse(explain(*sandbox, done.error())));
  if (sandbox->state == State::Ended)
    co_return co_await settle(audit, refuse(explain(*sandbox, Error{})));
  if (hibernates(*sandbox)) move_end(*sandbox, changed->limits.life_us);
  sandbox->limits = changed->limits;
  if (sandbox->kept.persistent || hibernates(*sandbox)) sandbox->kept.limits = changed->limits;
  sandbox->kept.idle_seconds = changed->idle_seconds;
  sandbox->kept.rest_seconds = changed->rest_seconds;
  schedule(*sandbox);
  audit.detail["memory_bytes"] = sandbox->limits.memory_bytes;
  audit.detail["cpu_millis"] = sandbox->limits.cpu_millis;
  audit.detail["life_us"] = sandbox->limits.life_us;
  audit.judge(nullptr);
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  batch.sandboxes.push_back(stored(*sandbox));
  auto written = co_await record(std::move(batch));
  audit.written();
  if (!written) co_return std::unexpected(written.error());
  events_.add("sandbox.limits", sandbox->tenant, sandbox->id);
  co_return view(*sandbox);
}

awaitable<Result<UsageView>> FleetImpl::usage(const Caller& caller, std::string id) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const SandboxPtr sandbox = *found;  // to look is not to use
  UsageView out;
  if (sandbox->state != State::Stopped) {
    const auto status = co_await launcher_->status(sandbox->id);
    if (!status) co_return std::unexpected(explain(*sandbox, status.error()));
    out.usage = status->usage;
    out.usage.cpu_time_us += sandbox->kept.cpu_used_us;
  }
  out.wall_seconds = std::chrono::duration<double>(Clock::now() - sandbox->started).count();
  out.execs = sandbox->execs;
  if (sandbox->gate) out.network = sandbox->gate->counts();
  out.tokens = sandbox->budget->state().used.tokens;
  out.cost_usd = static_cast<double>(sandbox->budget->state().used.cost) / 1e9;
  co_return out;
}

Result<std::unique_ptr<EventStream>> FleetImpl::events(const Caller& caller,
                                                       std::optional<std::string> sandbox,
                                                       std::uint64_t after) {
  EventFilter filter;
  if (!caller.may(store::Scope::Admin)) filter.tenant = caller.tenant;
  filter.sandbox = std::move(sandbox);
  return events_.follow(std::move(filter), after);
}

FleetCounters FleetImpl::counters() const {
  FleetCounters out = counters_;
  out.living = static_cast<std::size_t>(std::ranges::count_if(
      living_, [](const auto& one) { return one.second->state != State::Stopped; }));
  out.resting = static_cast<std::size_t>(
      std::ranges::count_if(living_, [](const auto& one) { return is_resting(*one.second); }));
  return out;
}

Result<void> FleetImpl::ready() const {
  if (stopping_) return failure(Errc::Gone, "the server ends");
  if (!launcher_->connected()) return failure(Errc::LauncherGone, "the launcher is away");
  // A server that is full serves the sandboxes it has: it is ready, and anybody may ask this.
  if (store_failed_) return failure(Errc::StoreFull, "the audit could not be written");
  return {};
}

}  // namespace caisson::control
