// Sandboxes whose files stay when they stop, and that can be started again: by a call, after the
// server, after the launcher, after the host.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "control/fleet_impl.h"
#include "control/sandbox_spec.h"
#include "control/shield.h"

namespace caisson::control {
namespace {

// Whether one that hibernates has files without its processes: those of a machine are on a disk
// that is kept with its memory, and nowhere else.
Result<void> files_alone(const Sandbox& sandbox, const SnapshotRecord* record) {
  const bool machine = sandbox.kept.tier == policy::SandboxTier::Microvm;
  if (sandbox.kept.storage == engine::Storage::Disk && !machine) return {};
  if (record == nullptr) return failure(Errc::Gone, "its files are lost; destroy it");
  if (!machine && !(record->memory && record->memory->files)) return {};
  return failure(Errc::Unsupported,
                 "its files are of one piece with its processes, and cannot be had without them: "
                 "resume it, or destroy it");
}

}  // namespace

// It stays among the living, without a guest: it can be seen, started and destroyed, and keeps its
// place and its name.
void FleetImpl::halt(const SandboxPtr& sandbox, std::string reason) {
  if (sandbox->state == State::Stopped || sandbox->state == State::Ended) return;
  sandbox->state = State::Stopped;
  sandbox->end_reason = std::move(reason);
  unschedule(*sandbox);
  close_gate(*sandbox);
  sandbox->commands.clear();
  if (sandbox->guest)
    sandbox->guest->close(
        Error{Errc::Gone, "sandbox '" + sandbox->id + "' was stopped: " + sandbox->end_reason, 0});
  // A call under way may still look at it; the next one sees the state first.
  events_.add("sandbox.stopped", sandbox->tenant, sandbox->id, {{"reason", sandbox->end_reason}});
}

void FleetImpl::lay_down(const SandboxPtr& sandbox, const std::string& reason, std::string actor) {
  halt(sandbox, reason);
  store::Store::Batch batch;
  batch.sandboxes.push_back(stored(*sandbox));
  batch.audit.push_back(own_row(*sandbox, std::move(actor), "sandbox.stop", reason));
  post(std::move(batch));
  boost::asio::co_spawn(executor_, stop_away(sandbox->id), boost::asio::detached);
}

awaitable<void> FleetImpl::stop_away(std::string id) {
  const std::weak_ptr<FleetImpl*> alive = alive_;
  const auto stopped = co_await launcher_->stop(id);
  if (stopped || alive.expired() || stopped.error().code == Errc::NotFound ||
      stopped.error().code == Errc::LauncherGone)
    co_return;
  if (const auto at = living_.find(id); at != living_.end()) at->second->lingers = true;
}

// Nothing of it runs any more, or an error. A launcher that is away has nothing that runs, and when
// only the way to it was, what is there is stopped as soon as it is back.
awaitable<Result<void>> FleetImpl::stop_there(SandboxPtr sandbox) {
  const auto stopped = co_await launcher_->stop(sandbox->id);
  bool over = stopped || stopped.error().code == Errc::NotFound ||
              stopped.error().code == Errc::LauncherGone;
  if (!over) {
    const auto status = co_await launcher_->status(sandbox->id);
    over = !status && status.error().code == Errc::NotFound;
  }
  sandbox->lingers = !over;
  if (!over) co_return std::unexpected(stopped.error());
  co_return Result<void>();
}

awaitable<Result<SandboxView>> FleetImpl::stop_sandbox(const Caller& caller, std::string id) {
  auto sandbox = find(caller, id);
  if (!sandbox) co_return std::unexpected(sandbox.error());
  co_return co_await shielded(executor_, stop_now(caller, *sandbox));
}

awaitable<Result<SandboxView>> FleetImpl::stop_now(Caller caller, SandboxPtr sandbox) {
  Audited audit(*this, row(caller, "sandbox.stop", sandbox->id, ""));
  const auto refuse = [](const Error& error) -> Result<SandboxView> {
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  if (const auto may = lasting(*sandbox); !may)
    co_return co_await settle(audit, refuse(may.error()));
  if (!sandbox->kept.persistent)
    co_return co_await settle(
        audit, refuse(Error{Errc::Busy,
                            "only a persistent sandbox can be stopped: the files of this one go "
                            "with it; pause or destroy it, or create one with persistent: true",
                            0}));
  auto turn = co_await sandbox->files->take();
  if (!turn) co_return co_await settle(audit, refuse(turn.error()));
  if (const auto same = still(*sandbox); !same)
    co_return co_await settle(audit, refuse(same.error()));
  if (sandbox->state == State::Stopped && !sandbox->lingers)
    co_return co_await settle(audit, Result<SandboxView>(view(*sandbox)));
  halt(sandbox, "stopped");
  const auto stopped = co_await stop_there(sandbox);
  if (!stopped) co_return co_await settle(audit, refuse(stopped.error()));
  audit.judge(nullptr);
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  if (sandbox->state != State::Ended) batch.sandboxes.push_back(stored(*sandbox));
  const auto written = co_await record(std::move(batch));
  audit.written();
  if (!written) co_return refuse(written.error());
  co_return view(*sandbox);
}

awaitable<Result<SandboxView>> FleetImpl::start_sandbox(const Caller& caller, std::string id) {
  auto sandbox = find(caller, id);
  if (!sandbox) co_return std::unexpected(sandbox.error());
  co_return co_await shielded(executor_, start_now(caller, *sandbox));
}

awaitable<Result<SandboxView>> FleetImpl::start_now(Caller caller, SandboxPtr sandbox) {
  Audited audit(*this, row(caller, "sandbox.start", sandbox->id, ""));
  const auto refuse = [](const Error& error) -> Result<SandboxView> {
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  auto turn = co_await sandbox->files->take();
  if (!turn) co_return co_await settle(audit, refuse(turn.error()));
  const auto alone = co_await sandbox->waking->take();  // nobody wakes it meanwhile
  if (!alone) co_return co_await settle(audit, refuse(alone.error()));
  if (const auto same = still(*sandbox); !same)
    co_return co_await settle(audit, refuse(same.error()));
  if (sandbox->state != State::Stopped)
    co_return co_await settle(audit, Result<SandboxView>(view(*sandbox)));
  // What was sealed when its launcher was lost is part of its files.
  if (const auto looked = co_await look(); !looked)
    co_return co_await settle(audit, refuse(looked.error()));
  if (sandbox->lingers) {
    const auto stopped = co_await stop_there(sandbox);
    if (!stopped) co_return co_await settle(audit, refuse(stopped.error()));
  }
  SandboxPlan plan = plan_again(*sandbox);
  plan.spec.request.id = sandbox->id;
  plan.spec.request.resume = sandbox->kept.storage == engine::Storage::Disk;
  // Without its processes, then: from the files of that moment.
  const std::string asleep = sandbox->kept.hibernated;
  const SnapshotRecord* files = asleep.empty() ? nullptr : files_.snapshots.find(asleep);
  if (!asleep.empty()) {
    if (const auto there = files_alone(*sandbox, files); !there)
      co_return co_await settle(audit, refuse(there.error()));
  }
  if (files != nullptr) plan.base.stack = plan.spec.request.stack = files->stack;
  const auto strong = above_minimum(sandbox->tenant, plan, "promote the sandbox first");
  if (!strong) co_return co_await settle(audit, refuse(strong.error()));
  const auto mounted = mount_volumes(sandbox->tenant, plan);
  if (!mounted) co_return co_await settle(audit, refuse(mounted.error()));
  const auto hold = files_.works.hold(sandbox->kept.stack.layers);
  auto launched = co_await launch(caller, std::move(plan), nullptr, sandbox);
  if (!launched) co_return co_await settle(audit, refuse(launched.error()));
  const SandboxPtr& fresh = *launched;
  if (sandbox->state == State::Ended || stopping_) {  // destroyed meanwhile
    close_gate(*fresh);
    fresh->guest->close(Error{Errc::Gone, "the sandbox was destroyed", 0});
    co_await clear_away(sandbox->id);
    co_return co_await settle(audit, refuse(Error{Errc::Gone, "the sandbox was destroyed", 0}));
  }
  take_place(fresh, sandbox);
  audit.judge(nullptr);
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  batch.sandboxes.push_back(stored(*fresh));
  const auto written = co_await record(std::move(batch));
  audit.written();
  if (!written) {
    lay_down(fresh, "its start could not be recorded", "server");
    co_return refuse(written.error());
  }
  events_.add("sandbox.started", fresh->tenant, fresh->id);
  co_await spend_memory(asleep);
  co_return view(*fresh);
}

// A record of one that is stopped, or that must be now: nothing of it runs, and its files are
// there.
awaitable<Result<void>> FleetImpl::adopt_stopped(store::SandboxRecord old, bool there,
                                                 store::Store::Batch& batch) {
  auto kept = parse_kept_spec(old.spec);
  if (!kept) co_return std::unexpected(kept.error());
  auto sandbox = std::make_shared<Sandbox>();
  sandbox->id = old.id;
  sandbox->tenant = old.tenant;
  sandbox->token = old.token;
  sandbox->created = old.created;
  sandbox->kept = *std::move(kept);
  sandbox->files = std::make_shared<Turns>(executor_, 1);
  sandbox->waking = std::make_shared<Turns>(executor_, 1);
  sandbox->limits = sandbox->kept.limits.value_or(engine::Limits{});
  sandbox->state = State::Stopped;
  sandbox->end_reason = old.end_reason.empty() ? "the server was stopped" : old.end_reason;
  sandbox->place = std::make_unique<Reservation>(alive_, old.tenant, old.token, sandbox->kept.name);
  open_budget(*sandbox);
  living_[sandbox->id] = sandbox;
  const bool on_disk = sandbox->kept.storage == engine::Storage::Disk;
  if (there) co_await (on_disk ? stop_away(old.id) : clear_away(old.id));
  schedule(*sandbox);
  if (old.state == store::RecordState::Stopped) co_return Result<void>();
  sandbox->end_reason = "lost with its launcher";
  batch.sandboxes.push_back(stored(*sandbox));
  batch.audit.push_back(own_row(*sandbox, "server", "sandbox.stop", sandbox->end_reason));
  co_return Result<void>();
}

}  // namespace caisson::control
