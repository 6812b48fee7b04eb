// Sandboxes that nobody uses rest: their processes stand still and the kernel takes back what it
// can of their memory, until somebody uses them again. Every call that needs the guest goes through
// wake() first, on its own or by running() and before_change(). The state stays Running meanwhile:
// a pause is somebody's wish and is respected, a rest is the server's and ends by itself.
//
//   schedule() → begin_look() → look at the processor's time, twice → settle_down(): Settling,
//   freeze, Resting, reclaim            wake() → thaw → None
//
// Whoever changes a rest, or puts the sandbox away, has its turn (waking). So many users at once
// wake it once, and one that comes while it settles waits until it can be woken.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "control/fleet_impl.h"
#include "control/shield.h"

namespace caisson::control {
namespace {

// Of one core, over the second half of the time without a use: who uses more has work to do.
constexpr double kBusyPart = 0.01;

}  // namespace

// A reader, a terminal, a watch and a connection to a port are uses. A connection out is work.
bool FleetImpl::may_rest(const Sandbox& sandbox) const {
  return sandbox.state == State::Running && sandbox.rest == Rest::None && sandbox.uses == 0 &&
         sandbox.guest && !sandbox.changing && !sandbox.restacking && !sandbox.flattening &&
         !stopping_ && (!sandbox.gate || sandbox.gate->counts().open == 0);
}

void FleetImpl::begin_look(const SandboxPtr& sandbox) {
  sandbox->looking = true;
  boost::asio::co_spawn(executor_, look_whether_idle(sandbox), boost::asio::detached);
}

// What its processes do while nobody asks anything of it is seen only by what they use.
awaitable<void> FleetImpl::look_whether_idle(SandboxPtr sandbox) {
  const std::weak_ptr<FleetImpl*> alive = alive_;
  const auto turn = co_await settling_.take();
  if (alive.expired()) co_return;
  if (turn && may_rest(*sandbox)) {
    const auto status = co_await launcher_->status(sandbox->id);
    if (alive.expired()) co_return;
    const auto before = std::exchange(sandbox->look, std::nullopt);
    if (status) sandbox->look = CpuLook{Clock::now(), status->usage.cpu_time_us};
    const bool second = status && before && before->at >= sandbox->last_use;
    if (second && may_rest(*sandbox)) {
      const auto over = duration_cast<microseconds>(sandbox->look->at - before->at).count();
      const auto used = sandbox->look->cpu_us - std::min(before->cpu_us, sandbox->look->cpu_us);
      if (static_cast<double>(used) <= kBusyPart * static_cast<double>(over))
        co_await settle_down(sandbox, status->usage.memory_bytes);
      if (alive.expired()) co_return;
    }
  }
  sandbox->looking = false;
  schedule(*sandbox);
}

awaitable<void> FleetImpl::settle_down(SandboxPtr sandbox, std::uint64_t held) {
  const std::weak_ptr<FleetImpl*> alive = alive_;
  {
    const auto turn = co_await sandbox->waking->take();
    if (alive.expired() || !turn || !may_rest(*sandbox)) co_return;
    sandbox->rest = Rest::Settling;
    const auto frozen = co_await launcher_->freeze(sandbox->id);
    if (alive.expired()) co_return;
    if (!frozen) {
      (void)co_await end_rest(sandbox);  // part of it may stand still
      co_return;
    }
    sandbox->rest = Rest::Resting;
  }
  if (sandbox->state != State::Running) co_return;
  ++counters_.rested;
  store::Store::Batch batch;
  batch.audit.push_back(own_row(*sandbox, "server", "sandbox.rest", ""));
  post(std::move(batch));
  // Whoever comes now need not wait for this.
  const auto after = co_await launcher_->reclaim(sandbox->id);
  if (alive.expired() || sandbox->state != State::Running) co_return;
  const std::uint64_t holds = after ? after->usage.memory_bytes : held;
  events_.add("sandbox.rested", sandbox->tenant, sandbox->id,
              {{"memory_bytes", holds}, {"reclaimed_bytes", held - std::min(held, holds)}});
}

awaitable<Result<void>> FleetImpl::wake(SandboxPtr sandbox) {
  while ((sandbox->rest != Rest::None || sandbox->hibernating) &&
         sandbox->state == State::Running) {
    // A caller who hangs up in the middle leaves it awake, or at rest; never in between.
    auto woken = co_await shielded(executor_, wake_now(sandbox));
    if (!woken) co_return woken;
  }
  if (hibernates(*sandbox)) co_return co_await end_hibernation(sandbox);
  co_return Result<void>();
}

awaitable<Result<void>> FleetImpl::woken(SandboxPtr sandbox) {
  auto up = co_await wake(sandbox);
  if (!up) co_return up;
  co_return awake(*sandbox);
}

awaitable<Result<void>> FleetImpl::wake_now(SandboxPtr sandbox) {
  const Use use(sandbox);
  const auto turn = co_await sandbox->waking->take();
  if (!turn) co_return std::unexpected(turn.error());
  co_return co_await end_rest(sandbox);
}

// The caller has its turn. What could not be woken stays at rest, and the next use tries again.
awaitable<Result<void>> FleetImpl::end_rest(SandboxPtr sandbox) {
  if (sandbox->rest == Rest::None) co_return Result<void>();
  if (sandbox->state != State::Running) co_return std::unexpected(explain(*sandbox, Error{}));
  const auto thawed = co_await launcher_->thaw(sandbox->id);
  if (sandbox->state == State::Ended) co_return std::unexpected(explain(*sandbox, Error{}));
  if (!thawed) co_return std::unexpected(thawed.error().within("wake"));
  sandbox->rest = Rest::None;
  sandbox->look.reset();
  sandbox->last_use = Clock::now();
  schedule(*sandbox);
  events_.add("sandbox.woken", sandbox->tenant, sandbox->id);
  co_return Result<void>();
}

}  // namespace caisson::control
