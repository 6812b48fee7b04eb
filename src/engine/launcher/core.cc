#include "engine/launcher/core.h"

#include <poll.h>

#include <algorithm>

#include "engine/gvisor/gvisor.h"
#include "engine/launcher/blank.h"
#include "engine/microvm/tier.h"
#include "engine/seccomp/filter.h"
#include "sys/namespace.h"

namespace caisson::engine {
namespace {

constexpr seconds kFreezeWait{2};
constexpr seconds kEndingWait{1};
constexpr microseconds kCpuCheckMin{500};  // the clock of CPU time is not finer

}  // namespace

Result<LauncherCore> LauncherCore::open(native::TierOptions options) {
  const std::string state_dir = options.state_dir;
  const auto patience = options.lifetime == native::Lifetime::OneShot ? microvm::Patience::Wait
                                                                      : microvm::Patience::Ask;
  auto machines = std::make_unique<microvm::MicrovmTier>(state_dir, patience);
  auto tier = TRY(native::NativeTier::open(std::move(options)));
  tier->add(policy::SandboxTier::Gvisor, std::make_unique<gvisor::GvisorTier>(state_dir));
  tier->add(policy::SandboxTier::Microvm, std::move(machines));
  return LauncherCore(std::move(tier));
}

Result<LauncherCore::Live*> LauncherCore::find(const std::string& id) {
  const auto at = live_.find(id);
  if (at == live_.end())
    return failure(Errc::NotFound, "sandbox '" + id + "': this launcher has none of that id");
  return &at->second;
}

Record LauncherCore::record_of(const LaunchRequest& request) {
  const native::GroupRoots& roots = tier_->group_roots();
  Record record;
  record.kernel = host().kernel_release;
  record.landlock_abi = host().landlock_abi;
  record.seccomp = seccomp::fingerprint(tier_->filter(request.profile));
  record.groups = roots.v2() < 0                            ? "none"
                  : roots.on_v2(native::Controller::Memory) ? "v2"
                  : roots.has(native::Controller::Memory)   ? "v2 membership, v1 limits"
                                                            : "v2 membership, no limits";
  if (request.gate) record.network = "lo, and the gate on it";
  if (request.tier != policy::SandboxTier::Native) {
    record.tier = tier_name(request.tier);
    record.landlock_abi = 0;
    const auto tier = tier_->carried(request.tier);
    const auto facts = tier ? (*tier)->facts() : Result<TierFacts>(TierFacts{});
    if (facts) record.kernel = facts->kernel + " on Linux " + host().kernel_release;
  }
  const bool disk = request.storage == Storage::Disk;
  if (disk) record.quota = "btrfs: bytes, and files as far as they take some";
  record.snapshots = !host().privileged    ? "none"
                     : !disk               ? "copied"
                     : is_carried(request) ? "cow"
                                           : "stacked or cow";
  record.ids = host().privileged ? "slot" : host().sub_ids ? "sub-ids" : "single id";
  return record;
}

Result<void> LauncherCore::prepare(const LaunchRequest& request,
                                   const std::vector<UniqueFd>& folders) {
  TRY(check(request));
  return tier_->prepare(request, folders);
}

Result<LaunchReply> LauncherCore::launch(const LaunchRequest& request,
                                         std::vector<UniqueFd> folders, native::GuestEnd end) {
  if (live_.size() >= kSandboxesMax) {
    return failure(Errc::Exhausted,
                   "this launcher has " + std::to_string(kSandboxesMax) + " sandboxes, its most");
  }
  if (live_.contains(request.id))
    return failure(Errc::AlreadyExists, "sandbox '" + request.id + "' exists");
  TRY(check(request));
  TRY(check_memory(request));
  tier_->set_uppers([this](const std::string& id, const native::Slot& slot) -> Result<UniqueFd> {
    Live* live = TRY(find(id));
    return tier_->upper_of(live->sandbox, live->request, slot);
  });
  native::Launched launched = TRY(launch_or_take(request, std::move(folders), std::move(end)));
  tier_->put_by(launched.sandbox);
  LaunchReply reply;
  reply.id = launched.sandbox.id().str();
  reply.stream = std::move(launched.stream);
  reply.gate = std::move(launched.gate);
  reply.nonce = launched.sandbox.nonce();
  reply.init_pid = launched.sandbox.init_pid();
  reply.record = record_of(request);
  LaunchRequest kept = request;
  kept.id = reply.id;
  const auto [at, fresh] = live_.emplace(reply.id, Live{std::move(launched.sandbox),
                                                        std::move(kept),
                                                        request.limits,
                                                        Clock::now(),
                                                        std::nullopt,
                                                        EndReason::Running,
                                                        false,
                                                        {},
                                                        reply.record,
                                                        std::nullopt});
  at->second.request.memory = {};
  CAISSON_ASSERT(fresh);
  arm(at->second);
  return reply;
}

// ----------------------------------------------------------------------------------------------
// blanks

namespace {

const std::string& host_name(const LaunchRequest& request, const std::string& id) {
  return request.hostname.empty() ? id : request.hostname;
}

bool same_groups(const Limits& a, const Limits& b) {
  return a.memory_bytes == b.memory_bytes && a.processes == b.processes &&
         a.cpu_millis == b.cpu_millis;
}

}  // namespace

// A caller who names his sandbox gets a new one: its groups carry the name.
Result<native::Launched> LauncherCore::launch_or_take(const LaunchRequest& request,
                                                      std::vector<UniqueFd> folders,
                                                      native::GuestEnd end) {
  if (!request.id.empty()) return tier_->launch(request, std::move(folders), std::move(end));
  CAISSON_ASSERT(!end.stream);  // a blank has its own
  demand_.ask(request, Clock::now());
  auto taken = take_blank(request);
  if (taken) return taken;
  LaunchRequest named = request;
  named.id = TRY(SandboxId::random()).str();
  return tier_->launch(named, std::move(folders));
}

Result<native::Launched> LauncherCore::take_blank(const LaunchRequest& request) {
  auto at = std::ranges::find_if(blanks_,
                                 [&](const Blank& blank) { return fits(blank.request, request); });
  if (at == blanks_.end()) {
    at = std::ranges::find_if(
        blanks_, [&](const Blank& blank) { return can_become(blank.request, request); });
  }
  if (at == blanks_.end()) return failure(Errc::NotFound, "no blank of that kind");
  Blank blank = std::move(*at);
  blanks_.erase(at);
  const auto ended = blank.launched.sandbox.try_reap();
  Result<void> usable =
      !ended || *ended ? failure(Errc::Gone, "the blank has ended") : Result<void>();
  if (usable) usable = become(blank, request);
  if (usable) return std::move(blank.launched);
  (void)tier_->destroy(std::move(blank.launched.sandbox));
  return std::unexpected(usable.error());
}

// Nobody has said anything to its init yet.
Result<void> LauncherCore::become(Blank& blank, const LaunchRequest& request) {
  native::Sandbox& sandbox = blank.launched.sandbox;
  if (!same_groups(blank.request.limits, request.limits))
    TRY(sandbox.groups().change_limits(host_limits(request.tier, request.limits),
                                       Clock::now() + kFreezeWait));
  if (blank.request.stack != request.stack)
    TRY(tier_->restack(sandbox, blank.request, request.stack));
  const std::string id = sandbox.id().str();
  const std::string& name = host_name(request, id);
  if (name == host_name(blank.request, id)) return {};
  return sys::rename_host(sandbox.pidfd(), name);
}

// One step: a blank more, or one less. False when there is no more to do.
bool LauncherCore::make_blank() {
  std::vector<const LaunchRequest*> ready;
  for (const Blank& blank : blanks_) ready.push_back(&blank.request);
  const LaunchRequest* kind = demand_.missing(ready, Clock::now());
  std::optional<std::size_t> gone = demand_.unwanted(ready);
  if (!gone && kind == nullptr) return false;
  if (!gone) {
    const Demand::Room room = demand_.room_for(*kind, ready);
    if (!room.enough && !room.instead) return false;
    gone = room.instead;
  }
  if (!gone) return add_blank(*kind);
  const auto at = blanks_.begin() + static_cast<std::ptrdiff_t>(*gone);
  (void)tier_->destroy(std::move(at->launched.sandbox));
  blanks_.erase(at);
  return true;
}

bool LauncherCore::add_blank(LaunchRequest request) {
  const auto id = SandboxId::random();
  if (!id) return false;
  request.id = id->str();
  auto launched = tier_->launch(request, {});
  if (!launched) {
    // The next request that fails says why to somebody.
    demand_.forget([&](const LaunchRequest& kind) { return fits(request, kind); });
    return false;
  }
  blanks_.push_back({std::move(request), std::move(*launched)});
  return true;
}

LauncherCore::~LauncherCore() {
  for (Blank& blank : blanks_) (void)tier_->destroy(std::move(blank.launched.sandbox));
}

void LauncherCore::disarm(Live& live) {
  if (live.due) due_.erase({*live.due, live.sandbox.id().str()});
  live.due.reset();
}

// A tree of any number of threads on c cores uses at most c seconds of CPU per second: it cannot be
// over its limit earlier than remaining/c from now, so that is when we look again.
void LauncherCore::arm(Live& live) {
  disarm(live);
  if (live.end != EndReason::Running) return;
  std::optional<TimePoint> due;
  if (live.limits.life_us != 0) due = live.started + microseconds(live.limits.life_us);
  // Who is frozen grows older, but uses no processor.
  if (live.limits.cpu_time_us != 0 && !live.frozen) {
    const auto used = live.sandbox.groups().cpu_time_us();
    const std::uint64_t done = used ? *used : 0;
    const std::uint64_t left = live.limits.cpu_time_us > done ? live.limits.cpu_time_us - done : 0;
    const auto wait = std::max(
        microseconds(left / static_cast<std::uint64_t>(std::max(1, host().cpus))), kCpuCheckMin);
    const TimePoint check = Clock::now() + wait;
    due = due ? std::min(*due, check) : check;
  }
  if (!due) return;
  live.due = due;
  due_.emplace(*due, live.sandbox.id().str());
}

void LauncherCore::check_time(Live& live) {
  const auto used = live.sandbox.groups().cpu_time_us();
  if (live.limits.cpu_time_us != 0 && used && *used >= live.limits.cpu_time_us) {
    live.end = EndReason::CpuTime;
  } else if (live.limits.life_us != 0 &&
             live.started + microseconds(live.limits.life_us) <= Clock::now()) {
    live.end = EndReason::Life;
  }
  if (live.end != EndReason::Running) (void)live.sandbox.kill();
  arm(live);
}

void LauncherCore::reap(Live& live) {
  // A carrier ends in order when the kernel that it carried for was killed.
  const bool carried = is_carried(live.request);
  if (carried && live.end == EndReason::Running && live.sandbox.ending()) {
    // Its sockets are closed before the rest of it is gone: with another kernel's processes that is
    // not the same moment. Who was killed for memory was counted before he was.
    const auto usage = live.sandbox.groups().usage();
    if (usage && usage->oom_kills > 0) {
      live.end = EndReason::OutOfMemory;
      disarm(live);
      return;
    }
    (void)sys::wait_ready(live.sandbox.pidfd(), POLLIN, Clock::now() + kEndingWait);
  }
  const auto status = live.sandbox.try_reap();
  if (!status || !*status || live.end != EndReason::Running) return;
  if (const auto why = live.sandbox.init_failure()) live.detail = why->message;
  const auto usage = live.sandbox.groups().usage();
  const bool out_of_memory = usage && usage->oom_kills > 0 && (carried || (*status)->signal != 0);
  if (carried && live.sandbox.trace() >= 0 && live.detail.empty() && !out_of_memory) {
    if (const auto tier = tier_->carried(live.request.tier))
      live.detail = (*tier)->failure(live.sandbox.trace());
  }
  live.end = out_of_memory            ? EndReason::OutOfMemory
             : (*status)->signal == 0 ? EndReason::Exited
                                      : EndReason::InitDied;
  if (!live.detail.empty()) live.end = EndReason::InitDied;
  disarm(live);
}

std::optional<TimePoint> LauncherCore::next_check() const {
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

void LauncherCore::tick() {
  const TimePoint now = Clock::now();
  while (!due_.empty() && due_.begin()->first <= now) {
    const auto at = live_.find(due_.begin()->second);
    CAISSON_ASSERT(at != live_.end());
    check_time(at->second);  // disarms it, or arms it for later
  }
}

Result<UniqueFd> LauncherCore::connect(const std::string& id) {
  Live* live = TRY(find(id));
  return live->sandbox.connect();
}

Result<Status> LauncherCore::status(const std::string& id) {
  Live* live = TRY(find(id));
  reap(*live);
  return Status{live->end, live->frozen, TRY(live->sandbox.groups().usage()), live->detail};
}

Result<Status> LauncherCore::destroy(const std::string& id) {
  return end(id, native::NativeTier::Files::Remove);
}

Result<Status> LauncherCore::stop(const std::string& id) {
  return end(id, native::NativeTier::Files::Keep);
}

Result<Status> LauncherCore::retire(const std::string& id) {
  const Live* live = TRY(find(id));
  return live->request.persistent ? stop(id) : destroy(id);
}

Result<Status> LauncherCore::end(const std::string& id, native::NativeTier::Files files) {
  Live* live = TRY(find(id));
  reap(*live);
  Status status{
      live->end == EndReason::Running ? EndReason::Destroyed : live->end, false, {}, live->detail};
  (void)live->sandbox.kill();  // it dies while we read what it has used
  const auto usage = live->sandbox.groups().usage();
  if (usage) status.usage = *usage;
  disarm(*live);
  native::Sandbox sandbox = std::move(live->sandbox);
  live_.erase(id);
  TRY_IN("destroy " + id, tier_->destroy(std::move(sandbox), files));
  return status;
}

Result<Status> LauncherCore::leave(const std::string& id) {
  Live* live = TRY(find(id));
  if (!tier_->guarded() || live->end != EndReason::Running) return destroy(id);
  Status status{EndReason::Destroyed, false, {}, {}};
  const auto usage = live->sandbox.groups().totals();
  if (usage) status.usage = *usage;
  return status;
}

Result<void> LauncherCore::kill(const std::string& id, EndReason reason) {
  Live* live = TRY(find(id));
  if (live->end == EndReason::Running) live->end = reason;
  disarm(*live);
  return live->sandbox.kill();
}

Result<void> LauncherCore::freeze(const std::string& id) {
  Live* live = TRY(find(id));
  TRY_IN("freeze " + id, live->sandbox.groups().freeze(Clock::now() + kFreezeWait));
  live->frozen = true;
  arm(*live);
  return {};
}

Result<void> LauncherCore::thaw(const std::string& id) {
  Live* live = TRY(find(id));
  TRY_IN("thaw " + id, live->sandbox.groups().thaw(Clock::now() + kFreezeWait));
  live->frozen = false;
  arm(*live);
  return {};
}

Result<void> LauncherCore::set_limits(const std::string& id, const Limits& limits) {
  Live* live = TRY(find(id));
  // Whatever a launch would refuse is refused here, too.
  LaunchRequest judged;
  judged.limits = limits;
  TRY_IN("limits of " + id, check(judged));
  if (limits.disk_bytes != live->limits.disk_bytes ||
      limits.disk_files != live->limits.disk_files ||
      limits.open_files != live->limits.open_files) {
    return failure(Errc::Unsupported,
                   "disk_bytes, disk_files, open_files: fixed when the sandbox is made");
  }
  const policy::SandboxTier tier = live->request.tier;
  if (tier != policy::SandboxTier::Native && limits.processes != live->limits.processes) {
    return failure(Errc::Unsupported, "processes: fixed when a sandbox of tier '" +
                                          std::string(tier_name(tier)) + "' is made");
  }
  if (tier == policy::SandboxTier::Microvm && limits.memory_bytes != live->limits.memory_bytes)
    return failure(Errc::Unsupported, "memory: that of a microVM is fixed when it is made");
  TRY_IN("limits of " + id, live->sandbox.groups().change_limits(host_limits(tier, limits),
                                                                 Clock::now() + kFreezeWait));
  live->limits = limits;
  arm(*live);
  return {};
}

std::vector<std::string> LauncherCore::list() const {
  std::vector<std::string> ids;
  ids.reserve(live_.size());
  for (const auto& [id, live] : live_) ids.push_back(id);
  return ids;
}

bool LauncherCore::refill() {
  const auto more = tier_->refill();
  if (more && *more) return true;
  return tier_->makes_ahead() && make_blank();
}

}  // namespace caisson::engine
