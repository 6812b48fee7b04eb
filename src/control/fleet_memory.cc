// Processes that are kept: in a snapshot, for a fork, and of a sandbox that hibernates.
//
// The launcher saves the memory of a sandbox and leaves it standing still; then its files are
// sealed, which so are of the same moment; then it goes on, or is taken away. The record of a
// snapshot names the memory by its digest and is authenticated as a whole; before anybody runs what
// is in it, the launcher measures it again.
//
// What hibernates is stopped, and its record names the hidden snapshot that has its processes. A
// use brings it back in its own place: who holds the sandbox sees it run again.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/id.h"
#include "control/fleet_impl.h"
#include "control/sandbox_limits.h"
#include "control/sandbox_spec.h"
#include "control/shield.h"
#include "control/text.h"

namespace caisson::control {
namespace {

constexpr const char* kHibernated = "hibernated";
constexpr std::uint64_t kMemoryBytesGuess = 512ULL << 20U;  // of one without a limit

std::unexpected<Error> no_memory(std::string message) {
  return std::unexpected(Error{Errc::InvalidArgument, std::move(message), 0, "memory"});
}

// What a sandbox that begins with processes cannot be told: they were told already.
Result<void> only_what_is_new(const CreateWish& wish) {
  const std::pair<const char*, bool> told[] = {
      {"base_image", wish.image.has_value()},
      {"profile", wish.profile.has_value()},
      {"storage", wish.storage.has_value()},
      {"persistent", wish.persistent.has_value()},
      {"checkpoint", wish.checkpoint.has_value()},
      {"volumes", !wish.volumes.empty()},
      {"tier", wish.tier.has_value()},
      {"tools", wish.tools.has_value()},
      {"files", !wish.files.empty()},
      {"network", wish.network != NetworkWish{}},
      {"budget", wish.budget != BudgetWish{}},
      {"limits", wish.limits != LimitWish{}},
      {"root", wish.root.has_value()},
      {"env", !wish.environment.empty()},
      {"workdir", wish.workdir.has_value()},
      {"user", wish.uid.has_value() || wish.gid.has_value() || wish.root_capabilities.has_value()},
  };
  for (const auto& [field, there] : told) {
    if (there)
      return std::unexpected(
          Error{Errc::InvalidArgument,
                fmt::format("{}: with memory a sandbox goes on as it was; leave it out", field), 0,
                field});
  }
  return {};
}

std::unexpected<Error> cannot_save(std::string why) {
  return std::unexpected(Error{Errc::Unsupported, "memory: " + std::move(why), 0, "memory"});
}

// gVisor of 2022 gives up, and its sandbox with it, when it is asked to save a TCP socket that
// somebody watches by epoll, as servers do, and init where there is a way out. Which are watched so
// cannot be seen from outside, so it is not asked while anybody waits for connections. An init that
// was made with a way out does so for good.
awaitable<Result<void>> savable(SandboxPtr sandbox) {
  if (sandbox->kept.tier != policy::SandboxTier::Gvisor) co_return Result<void>();
  if (sandbox->kept.has_gate() || sandbox->kept.ports_inside)
    co_return cannot_save(
        "gVisor does not save a sandbox that was made with rules for its network; make one "
        "without, "
        "or use the tier microvm");
  const auto ports = co_await sandbox->guest->ports(sandbox->user());
  if (!ports) co_return std::unexpected(ports.error());
  if (ports->empty()) co_return Result<void>();
  co_return cannot_save(fmt::format(
      "gVisor does not save programs that wait for TCP connections, as one does on port "
      "{}; let them wait on a socket of the file system, or use the tier microvm",
      ports->front()));
}

engine::MemoryImage image_of(const KeptMemory& kept, bool same) {
  return {kept.name, kept.digest, kept.runtime, same};
}

store::WallTime micros(std::uint64_t value) { return static_cast<store::WallTime>(value); }

std::uint64_t since(TimePoint start) {
  return static_cast<std::uint64_t>(duration_cast<microseconds>(Clock::now() - start).count());
}

}  // namespace

// ----------------------------------------------------------------------------------------------
// keeping

Result<void> FleetImpl::begin_memory(const Sandbox& sandbox, const SealWish& wish,
                                     SnapshotRecord& made) const {
  if (sandbox.state != State::Running || !sandbox.guest)
    return failure(Errc::Busy, "sandbox '" + sandbox.id + "' is paused; resume it first");
  if (sandbox.changing)
    return failure(Errc::Busy, "sandbox '" + sandbox.id + "' is being changed; try again");
  const std::uint64_t limit = sandbox.limits.memory_bytes;
  KeptMemory memory;
  memory.bytes = limit != 0 ? limit : kMemoryBytesGuess;  // until it is measured
  TRY(has_room(sandbox.tenant, memory.bytes));
  const SandboxId name = TRY(SandboxId::random());
  memory.name = name.str();
  KeptSpec spec = sandbox.kept;
  spec.proxy_tokens.clear();
  if (spec.authority) spec.authority->sealed_key.clear();  // no secret of one is another's
  memory.spec = to_json(spec);
  memory.limits = limits_text(sandbox.limits);
  if (wish.memory == SealMemory::Ends && spec.storage == engine::Storage::Disk) memory.files = true;
  made.memory = std::move(memory);
  return {};
}

// Whatever goes wrong: it goes on, and what was saved is dropped. One that is to end stands still
// until all of it is known to be there.
awaitable<Result<engine::Sealed>> FleetImpl::seal_standing(SandboxPtr sandbox, SnapshotRecord& made,
                                                           std::string layer, SealMemory memory) {
  if (const auto may = co_await savable(sandbox); !may) co_return std::unexpected(may.error());
  sandbox->changing = true;  // no pause, no other limits: it stands still
  const std::string name = made.memory->name;
  auto saved = co_await launcher_->save_memory(sandbox->id, name, memory == SealMemory::Ends);
  if (!saved) {
    sandbox->changing = false;
    // Where the sandbox went away meanwhile, part of it may be there.
    files_.memories.insert(name);
    co_await drop_memory(name);
    Error error = saved.error().within("memory");
    if (error.code == Errc::Unsupported && error.field.empty()) error.field = "memory";
    co_return std::unexpected(std::move(error));
  }
  files_.memories.insert(name);
  made.memory->runtime = saved->runtime;
  made.memory->files = made.memory->files || saved->files;
  const bool ends = memory == SealMemory::Ends;
  auto sealed = co_await seal_files(sandbox, made, layer);
  // It may stand on that layer, whatever comes behind.
  const bool stacked = sealed && sealed->kind == engine::SnapshotKind::Stacked;
  if (sealed && !made.memory->files) files_.layers.insert(layer);
  Result<void> measured;
  if (sealed && ends) measured = co_await measure(made);
  if (!ends || !sealed || !measured) {
    const auto on = co_await goes_on(sandbox);
    if (!on && sealed) sealed = std::unexpected(on.error());
  }
  sandbox->changing = false;
  if (sealed && !ends) measured = co_await measure(made);
  if (sealed && !measured) sealed = std::unexpected(measured.error());
  if (sealed) co_return sealed;
  if (stacked) sandbox->kept.stack = made.stack;
  co_await drop_memory(name);
  co_return sealed;
}

awaitable<Result<engine::Sealed>> FleetImpl::seal_files(SandboxPtr sandbox, SnapshotRecord& made,
                                                        std::string layer) {
  if (made.memory->files) {
    made.stack = sandbox->kept.stack;
    co_return engine::Sealed{engine::SnapshotKind::Cow, 0};
  }
  if (sandbox->kept.storage == engine::Storage::Disk)
    co_return co_await launcher_->seal(sandbox->id, std::move(layer));
  auto turn = co_await files_.works.job_turn();
  if (!turn) co_return std::unexpected(turn.error());
  co_return co_await copy_upper(std::move(sandbox), std::move(layer), *std::move(turn));
}

// The word of its init says that it does.
awaitable<Result<void>> FleetImpl::goes_on(SandboxPtr sandbox) {
  const auto on = co_await launcher_->go_on(sandbox->id);
  if (!on) co_return std::unexpected(explain(*sandbox, on.error()));
  const auto there = co_await sandbox->guest->processes();
  if (!there) co_return std::unexpected(explain(*sandbox, there.error()));
  co_return Result<void>();
}

awaitable<Result<void>> FleetImpl::measure(SnapshotRecord& made) {
  const auto measured = co_await launcher_->measure(made.memory->name);
  if (!measured) co_return std::unexpected(measured.error().within("memory"));
  made.memory->digest = measured->digest;
  made.memory->bytes = measured->bytes;
  co_return Result<void>();
}

// Nobody goes on with it any more: its record is one of files now.
awaitable<void> FleetImpl::spend_memory(std::string snapshot) {
  SnapshotRecord* record = files_.snapshots.find(snapshot);
  if (record == nullptr || !record->memory) co_return;
  record->memory.reset();
  store::Store::Batch batch;
  batch.files.push_back(sealed_row(*record));
  post(std::move(batch));
  co_await drop_memories();
}

// A server died between a seal and what it was for: a fork, or a sleep.
awaitable<void> FleetImpl::spend_what_nobody_wakes() {
  if (files_.unsure) co_return;  // somebody may hibernate whose record cannot be read
  const std::weak_ptr<FleetImpl*> alive = alive_;
  std::set<std::string> spent;
  for (const auto& [id, record] : files_.snapshots.all()) {
    if (record.hidden && record.memory && !record.making) spent.insert(id);
  }
  for (const auto& [id, sandbox] : living_) spent.erase(sandbox->kept.hibernated);
  for (const std::string& id : spent) {
    co_await spend_memory(id);
    if (alive.expired()) co_return;
  }
}

awaitable<void> FleetImpl::drop_memories() {
  if (files_.unsure) co_return;
  const std::weak_ptr<FleetImpl*> alive = alive_;
  const auto needed = [this](const std::string& name) {
    return std::ranges::any_of(files_.snapshots.all(), [&](const auto& one) {
      return one.second.memory && one.second.memory->name == name;
    });
  };
  const std::set<std::string> all = files_.memories;
  for (const std::string& name : all) {
    if (needed(name)) continue;
    co_await drop_memory(name);
    if (alive.expired()) co_return;
  }
}

// What could not be dropped is dropped another time.
awaitable<void> FleetImpl::drop_memory(std::string name) {
  const std::weak_ptr<FleetImpl*> alive = alive_;
  if (files_.memories.erase(name) == 0) co_return;
  const auto dropped = co_await launcher_->drop(engine::StoreEntry::Kind::Memory, name);
  if (alive.expired()) co_return;
  if (!dropped && dropped.error().code != Errc::NotFound) files_.memories.insert(name);
}

// ----------------------------------------------------------------------------------------------
// going on as somebody else

awaitable<Result<SandboxPlan>> FleetImpl::memory_plan(const Caller& caller,
                                                      const CreateWish& wish) {
  if (const auto good = only_what_is_new(wish); !good) co_return std::unexpected(good.error());
  if (!wish.snapshot) co_return no_memory("memory: goes with snapshot, whose processes they are");
  const SnapshotRecord* found = files_.snapshots.find(caller.tenant, *wish.snapshot);
  if (found == nullptr || found->hidden)
    co_return failure(Errc::NotFound,
                      fmt::format("snapshot '{}' does not exist", cut_text(*wish.snapshot, 64)));
  if (!found->memory)
    co_return no_memory(fmt::format("memory: snapshot '{}' has files and no processes",
                                    cut_text(*wish.snapshot, 64)));
  const SnapshotRecord record = *found;
  if (record.broken) co_return failure(Errc::Gone, "snapshot: a layer of it is missing");
  auto kept = parse_kept_spec(record.memory->spec);
  const auto limits = parse_limits(record.memory->limits);
  if (!kept || !limits) co_return failure(Errc::Internal, "the snapshot's record cannot be read");
  Sandbox source;
  source.kept = *std::move(kept);
  source.limits = *limits;
  // What is the most by now holds, whatever was allowed then.
  if (const auto within = check_most(source.limits, options_.limits_max); !within)
    co_return failure(Errc::Denied,
                      "memory: its limits are above what this server allows by now (" +
                          within.error().message +
                          "); create a sandbox from the files alone, with less");
  SandboxPlan plan = plan_again(source);
  plan.spec.ports_inside = source.kept.ports_inside;
  if (const auto strong = above_minimum(caller.tenant, plan, "create one from the files alone");
      !strong)
    co_return std::unexpected(strong.error());
  if (const auto good = check_name_and_labels(wish.name, wish.labels); !good)
    co_return std::unexpected(good.error());
  plan.name = wish.name;
  plan.labels.erase(std::string(kPublicLabel));
  for (const auto& [name, value] : wish.labels) plan.labels[name] = value;
  plan.payer.clear();
  plan.base.stack = record.stack;
  plan.base.base_layers = record.base_layers;
  plan.base.parent = record.id;
  plan.base.head = record.id;
  plan.spec.request.stack = record.stack;
  plan.spec.request.hostname = wish.hostname.value_or("");
  if (wish.hostname) {
    if (const auto good = check_hostname(*wish.hostname); !good)
      co_return std::unexpected(good.error());
  }
  plan.spec.request.memory = image_of(*record.memory, false);
  if (const auto mounted = mount_volumes(caller.tenant, plan); !mounted)
    co_return std::unexpected(mounted.error());
  co_return plan;
}

awaitable<Result<SandboxView>> FleetImpl::create_with_memory(const Caller& caller, CreateWish wish,
                                                             Audited& audit) {
  const auto refuse = [this](const Error& error) -> Result<SandboxView> {
    ++counters_.failed;
    return std::unexpected(error);
  };
  auto plan = co_await memory_plan(caller, wish);
  if (!plan) co_return co_await settle(audit, refuse(plan.error()));
  audit.detail["memory"] = plan->spec.request.memory.digest;
  const auto hold = files_.works.hold(plan->spec.request.stack.layers);
  const auto volumes = hold_volumes(caller.tenant, *plan);
  auto place = reserve(caller, plan->name);
  if (!place) co_return co_await settle(audit, refuse(place.error()));
  auto launched = co_await launch(caller, *std::move(plan), *std::move(place));
  if (!launched) co_return co_await settle(audit, refuse(launched.error()));
  co_return co_await enroll(*launched, audit, "sandbox.created");
}

// ----------------------------------------------------------------------------------------------
// hibernating

awaitable<Result<SandboxView>> FleetImpl::hibernate(const Caller& caller, std::string id) {
  auto sandbox = find(caller, id);
  if (!sandbox) co_return std::unexpected(sandbox.error());
  co_return co_await shielded(executor_, hibernate_now(caller, *sandbox));
}

awaitable<Result<SandboxView>> FleetImpl::hibernate_now(Caller caller, SandboxPtr sandbox) {
  const Use use(sandbox);  // it is not idle meanwhile
  Audited audit(*this, row(caller, "sandbox.hibernate", sandbox->id, ""));
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
  if (hibernates(*sandbox)) co_return co_await settle(audit, Result<SandboxView>(view(*sandbox)));
  if (const auto up = co_await woken(sandbox); !up)
    co_return co_await settle(audit, refuse(up.error()));
  const auto alone = co_await sandbox->waking->take();
  if (!alone) co_return co_await settle(audit, refuse(alone.error()));
  // Whoever would use it from here on waits for that turn, and wakes it.
  const Hibernating asleep(sandbox);
  if (const auto up = co_await end_rest(sandbox); !up)
    co_return co_await settle(audit, refuse(explain(*sandbox, up.error())));
  SealWish want;
  want.hidden = true;
  want.memory = SealMemory::Ends;
  const auto made = co_await seal(sandbox, std::move(want), nullptr);
  if (!made) co_return co_await settle(audit, refuse(explain(*sandbox, made.error())));
  audit.detail["memory_bytes"] = made->memory->bytes;
  const auto away = co_await put_away(sandbox, made->id, audit);
  if (!away) {
    tidy_soon();  // what was saved of it is nobody's
    co_return refuse(away.error());
  }
  co_return view(*sandbox);
}

// On record before it is gone: what a server that dies here leaves standing is taken away by the
// next one, and wakes as any other does.
awaitable<Result<void>> FleetImpl::put_away(SandboxPtr sandbox, std::string snapshot,
                                            Audited& audit) {
  const auto status = co_await launcher_->status(sandbox->id);
  if (sandbox->state == State::Ended) {
    co_return co_await settle(audit, Result<void>(std::unexpected(explain(*sandbox, Error{}))));
  }
  const std::uint64_t lived_before = std::exchange(sandbox->kept.lived_us, since(sandbox->started));
  const std::uint64_t used_before = sandbox->kept.cpu_used_us;
  if (sandbox->limits.life_us != 0)
    sandbox->kept.expires =
        store::wall_now() + micros(sandbox->limits.life_us) - micros(sandbox->kept.lived_us);
  if (status) sandbox->kept.cpu_used_us += status->usage.cpu_time_us;
  sandbox->kept.limits = sandbox->limits;
  sandbox->kept.hibernated = snapshot;
  // One without files is nothing that others could have come from.
  const SnapshotRecord* made = files_.snapshots.find(snapshot);
  if (made != nullptr && made->memory->files) sandbox->kept.head = made->parent;
  keep_spent(*sandbox);
  audit.judge(nullptr);
  sandbox->leaving = true;
  sandbox->end_reason = kHibernated;
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  batch.sandboxes.push_back(stored(*sandbox));
  const auto written = co_await record(std::move(batch));
  audit.written();
  sandbox->leaving = false;
  if (sandbox->state == State::Ended) co_return std::unexpected(explain(*sandbox, Error{}));
  if (!written) {
    sandbox->kept.lived_us = lived_before;
    sandbox->kept.cpu_used_us = used_before;
    co_await stay(sandbox);
    co_return written;
  }
  halt(sandbox, kHibernated);
  schedule(*sandbox);
  if (sandbox->kept.storage == engine::Storage::Disk) {
    (void)co_await stop_there(sandbox);
  } else {
    co_await clear_away(sandbox->id);
  }
  sync_soon();
  co_return written;
}

// It could not be put away: it goes on where it stands.
awaitable<void> FleetImpl::stay(SandboxPtr sandbox) {
  sandbox->kept.hibernated.clear();
  sandbox->kept.expires = 0;
  if (!sandbox->kept.persistent) sandbox->kept.limits.reset();
  sandbox->end_reason.clear();
  (void)co_await goes_on(sandbox);
  store::Store::Batch batch;  // what could not be written may be there in part
  if (sandbox->state != State::Ended) batch.sandboxes.push_back(stored(*sandbox));
  post(std::move(batch));
}

// What it slept while it had no end is not counted: it could be over before anybody knew of one.
void FleetImpl::move_end(Sandbox& sandbox, std::uint64_t life_us) {
  KeptSpec& kept = sandbox.kept;
  if (life_us == 0) {
    kept.expires = 0;
  } else if (kept.expires != 0) {
    kept.expires += micros(life_us) - micros(sandbox.limits.life_us);
  } else {
    kept.expires = store::wall_now() + micros(life_us) - micros(kept.lived_us);
  }
}

awaitable<Result<void>> FleetImpl::end_hibernation(SandboxPtr sandbox) {
  if (!hibernates(*sandbox)) co_return Result<void>();
  co_return co_await shielded(executor_, end_hibernation_now(std::move(sandbox)));
}

// Whoever comes meanwhile waits for the same turn, and finds it done.
awaitable<Result<void>> FleetImpl::end_hibernation_now(SandboxPtr sandbox) {
  const Use use(sandbox);
  const auto turn = co_await sandbox->waking->take();
  if (!turn) co_return std::unexpected(turn.error());
  if (sandbox->state == State::Ended) co_return std::unexpected(explain(*sandbox, Error{}));
  if (!hibernates(*sandbox)) co_return Result<void>();
  const TimePoint begun = Clock::now();
  const auto done = co_await bring_back(sandbox);
  store::AuditEvent event = own_row(*sandbox, "server", "sandbox.wake", "");
  if (!done) {
    event.outcome = store::Outcome::Failed;
    event.object = cut_text(done.error().message, kRefusedTextBytesMax);
  }
  store::Store::Batch batch;
  batch.audit.push_back(std::move(event));
  if (!done) {
    post(std::move(batch));
    co_return std::unexpected(done.error().within("wake sandbox '" + sandbox->id + "'"));
  }
  const std::string snapshot = std::exchange(sandbox->kept.hibernated, {});
  sandbox->kept.expires = 0;
  if (!sandbox->kept.persistent) sandbox->kept.limits.reset();
  batch.sandboxes.push_back(stored(*sandbox));
  const auto written = co_await record(std::move(batch));
  if (!written) co_return std::unexpected(written.error());
  const auto took = duration_cast<milliseconds>(Clock::now() - begun).count();
  events_.add("sandbox.woken", sandbox->tenant, sandbox->id, {{"milliseconds", took}});
  co_await spend_memory(snapshot);
  tidy_soon();
  co_return Result<void>();
}

Result<SandboxPlan> FleetImpl::wake_plan(const Sandbox& sandbox) const {
  const SnapshotRecord* record = files_.snapshots.find(sandbox.kept.hibernated);
  if (record == nullptr || !record->memory || record->broken)
    return failure(Errc::Gone,
                   "its processes are lost; start it without them: POST …/start, when it is "
                   "persistent, or destroy it");
  SandboxPlan plan = plan_again(sandbox);
  plan.spec.ports_inside = sandbox.kept.ports_inside;
  engine::LaunchRequest& request = plan.spec.request;
  request.id = sandbox.id;
  request.resume = sandbox.kept.storage == engine::Storage::Disk;
  request.stack = record->stack;
  plan.base.stack = record->stack;
  plan.base.base_layers = record->base_layers;
  plan.base.head = sandbox.kept.head;
  request.memory = image_of(*record->memory, true);
  if (sandbox.kept.expires != 0 && sandbox.kept.expires <= store::wall_now())
    return failure(Errc::Gone, "its time to live is over");
  request.limits = launcher_limits(sandbox, sandbox.limits);
  return plan;
}

// The launched one is a twin of this object for a moment; then this one has what it has.
awaitable<Result<void>> FleetImpl::bring_back(SandboxPtr sandbox) {
  if (const auto looked = co_await look(); !looked) co_return std::unexpected(looked.error());
  if (sandbox->lingers) {
    const auto stopped = co_await stop_there(sandbox);
    if (!stopped) co_return std::unexpected(stopped.error());
  }
  // What it slept is part of its life.
  if (sandbox->kept.expires != 0) {
    const store::WallTime left =
        std::max<store::WallTime>(sandbox->kept.expires - store::wall_now(), 0);
    sandbox->kept.lived_us = sandbox->limits.life_us -
                             std::min(sandbox->limits.life_us, static_cast<std::uint64_t>(left));
  }
  auto plan = wake_plan(*sandbox);
  if (!plan) co_return std::unexpected(plan.error());
  const auto mounted = mount_volumes(sandbox->tenant, *plan);
  if (!mounted) co_return std::unexpected(mounted.error());
  const auto hold = files_.works.hold(plan->spec.request.stack.layers);
  const auto volumes = hold_volumes(sandbox->tenant, *plan);
  Caller owner;
  owner.tenant = sandbox->tenant;
  owner.actor = sandbox->token;
  auto launched = co_await launch(owner, *std::move(plan), nullptr, sandbox);
  if (!launched) co_return std::unexpected(launched.error());
  const SandboxPtr fresh = *launched;
  close_gate(*fresh);
  Result<void> usable;
  if (sandbox->state == State::Ended || stopping_) {
    usable = failure(Errc::Gone, "the sandbox was destroyed");
  } else {
    sandbox->guest = fresh->guest;
    sandbox->kept.stack = fresh->kept.stack;
    sandbox->record = fresh->record;
    sandbox->started =
        Clock::now() - microseconds(static_cast<std::int64_t>(sandbox->kept.lived_us));
    usable = co_await reopen_gate(sandbox);
  }
  if (!usable) {
    fresh->guest->close(usable.error());
    if (sandbox->state == State::Ended || sandbox->kept.storage != engine::Storage::Disk) {
      co_await clear_away(sandbox->id);
    } else {
      co_await stop_away(sandbox->id);
    }
    co_return std::unexpected(usable.error());
  }
  sandbox->state = State::Running;
  sandbox->end_reason.clear();
  publish(sandbox);
  co_await recall_commands(sandbox);
  co_return Result<void>();
}

}  // namespace caisson::control
