// Who was idle for too long. The launcher ends what is over its time to live, also while no server
// runs; the fleet ends what nobody uses, and what reaches the end of its life while it is paused,
// since the launcher's clock stands still for that one.
//
// One ordered set and one timer. A use of a sandbox does not move its entry: the entry is looked at
// when it is due, and put back if there was a use since.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <utility>

#include "control/fleet_impl.h"

namespace caisson::control {
namespace {

constexpr microseconds kLookMin{5'000};  // between two looks, however soon one is to rest

microseconds from_seconds(double value) {
  return microseconds(static_cast<std::int64_t>(value * 1e6));
}

std::optional<TimePoint> end_of_life(const Sandbox& sandbox) {
  if (sandbox.limits.life_us == 0) return std::nullopt;
  return sandbox.started + microseconds(static_cast<std::int64_t>(sandbox.limits.life_us));
}

// When to look whether it may rest: twice, in the middle of the time without a use and at its end.
std::optional<TimePoint> next_look(const Sandbox& sandbox, TimePoint now) {
  if (!sandbox.kept.rest_seconds || sandbox.state != State::Running || sandbox.rest != Rest::None ||
      sandbox.looking)
    return std::nullopt;
  TimePoint since = sandbox.uses > 0 ? now : sandbox.last_use;
  if (sandbox.look) since = std::max(since, sandbox.look->at);
  return since + std::max(from_seconds(*sandbox.kept.rest_seconds / 2), kLookMin);
}

std::optional<TimePoint> end_of_idleness(const Sandbox& sandbox, TimePoint now) {
  if (!sandbox.kept.idle_seconds) return std::nullopt;
  const TimePoint since = sandbox.uses > 0 ? now : sandbox.last_use;
  return since + from_seconds(*sandbox.kept.idle_seconds);
}

}  // namespace

void FleetImpl::unschedule(Sandbox& sandbox) {
  if (sandbox.due) deadlines_.erase({*sandbox.due, sandbox.id});
  sandbox.due.reset();
}

void FleetImpl::schedule(Sandbox& sandbox) {
  unschedule(sandbox);
  const bool asleep = hibernates(sandbox) && sandbox.kept.expires != 0;
  if (sandbox.state == State::Ended || (sandbox.state == State::Stopped && !asleep)) return;
  std::optional<TimePoint> due =
      asleep ? Clock::now() + microseconds(sandbox.kept.expires - store::wall_now())
             : end_of_idleness(sandbox, Clock::now());
  if (sandbox.state == State::Paused) {
    if (const auto life = end_of_life(sandbox)) due = due ? std::min(*due, *life) : *life;
  }
  if (const auto look = next_look(sandbox, Clock::now())) due = due ? std::min(*due, *look) : *look;
  if (!due) return;
  sandbox.due = due;
  deadlines_.emplace(*due, sandbox.id);
  arm_expiry();
}

void FleetImpl::arm_expiry() {
  if (deadlines_.empty()) return;
  const TimePoint next = deadlines_.begin()->first;
  if (expiry_.expiry() == next) return;
  expiry_.expires_at(next);
  auto over = [alive = alive()](const boost::system::error_code& failed) {
    const auto fleet = alive.lock();
    if (!failed && fleet) (*fleet)->check_expiry();
  };
  expiry_.async_wait(std::move(over));
}

// What is on the disk goes, too. One that persists is stopped, as it is when it runs: its processes
// are over, and its files stay.
awaitable<void> FleetImpl::end_asleep(Caller server, SandboxPtr sandbox) {
  if (!sandbox->kept.persistent) {
    (void)co_await destroy_now(std::move(server), std::move(sandbox));
    co_return;
  }
  const std::weak_ptr<FleetImpl*> alive = alive_;
  const auto turn = co_await sandbox->waking->take();  // nobody wakes it meanwhile
  if (!turn || alive.expired() || stopping_ || !hibernates(*sandbox)) co_return;
  if (sandbox->kept.expires == 0 || sandbox->kept.expires > store::wall_now()) {
    schedule(*sandbox);
    co_return;
  }
  const std::string snapshot = std::exchange(sandbox->kept.hibernated, {});
  sandbox->kept.expires = 0;
  sandbox->kept.lived_us = 0;
  sandbox->end_reason = "expired";
  store::Store::Batch batch;
  batch.sandboxes.push_back(stored(*sandbox));
  batch.audit.push_back(own_row(*sandbox, server.actor, "sandbox.stop", sandbox->end_reason));
  post(std::move(batch));
  events_.add("sandbox.stopped", sandbox->tenant, sandbox->id, {{"reason", sandbox->end_reason}});
  co_await spend_memory(snapshot);
  if (!alive.expired()) tidy_soon();
}

void FleetImpl::check_expiry() {
  const TimePoint now = Clock::now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto at = living_.find(deadlines_.begin()->second);
    if (at == living_.end()) {
      deadlines_.erase(deadlines_.begin());
      continue;
    }
    const SandboxPtr sandbox = at->second;
    const auto life = sandbox->state == State::Paused ? end_of_life(*sandbox) : std::nullopt;
    const auto idle = end_of_idleness(*sandbox, now);
    const auto look = next_look(*sandbox, now);
    unschedule(*sandbox);
    if (hibernates(*sandbox)) {
      Caller server;
      server.tenant = sandbox->tenant;
      server.actor = "server";
      if (sandbox->kept.expires <= store::wall_now()) {
        boost::asio::co_spawn(executor_, end_asleep(server, sandbox), boost::asio::detached);
      } else {
        schedule(*sandbox);
      }
      continue;
    }
    if (life && *life <= now) {
      end(sandbox, "expired", "server");
    } else if (idle && *idle <= now) {
      end(sandbox, "idle", "server");
    } else {
      if (look && *look <= now) begin_look(sandbox);
      schedule(*sandbox);
    }
  }
  arm_expiry();
}

}  // namespace caisson::control
