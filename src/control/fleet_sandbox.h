// control/fleet_sandbox.h — one sandbox as the fleet holds it. Only fleet_impl.h includes it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "control/file_records.h"
#include "control/fleet.h"
#include "control/interpreters/home.h"
#include "control/records.h"
#include "control/told_calls.h"
#include "control/turns.h"
#include "egress/credentials/authority.h"
#include "egress/gate/gate.h"
#include "engine/channel/guest_channel.h"

namespace caisson::control {

class FleetImpl;

// A place under max_concurrent and its kin, and a name: given back when it goes.
class Reservation {
 public:
  Reservation(std::weak_ptr<FleetImpl*> fleet, std::string tenant, std::string token,
              std::string name);
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation();

 private:
  std::weak_ptr<FleetImpl*> fleet_;
  std::string tenant_;
  std::string token_;
  std::string name_;
};

// Of the digests of tokens that are looked through for sandboxes that are gone.
inline constexpr std::size_t kTokenHomesSweepMin = 64;
// Given out for one sandbox and not expired: one in three hours, and each lives four.
inline constexpr std::size_t kProxyTokensMax = 8;

// Of a sandbox that runs and is not used (fleet_rest.cc). Settling: its processes stand still in a
// moment, or some of them do.
enum class Rest : std::uint8_t { None, Settling, Resting };

// What a sandbox had used of the processor when it was looked at.
struct CpuLook {
  TimePoint at;
  std::uint64_t cpu_us = 0;
};

struct Sandbox : std::enable_shared_from_this<Sandbox> {
  std::string id;
  std::string tenant;
  std::string token;
  KeptSpec kept;
  engine::Limits limits;
  engine::Record record;
  State state = State::Running;
  std::string end_reason;
  store::WallTime created = 0;
  TimePoint started = Clock::now();
  std::shared_ptr<engine::GuestChannel> guest;   // none: adopted while paused, joined by resume()
  std::shared_ptr<egress::Gate> gate;            // only with rules; closed before it is let go
  std::shared_ptr<egress::Budget> budget;        // always: somebody outside may count, too
  std::shared_ptr<egress::Authority> authority;  // only where it trusts one of ours
  std::unique_ptr<Reservation> place;
  bool changing = false;  // a pause, resume or change of limits is under way
  int uses = 0;
  TimePoint last_use = Clock::now();
  std::optional<TimePoint> due;  // as it stands in the fleet's deadlines
  Rest rest = Rest::None;
  bool looking = false;           // whether it may rest is being found out
  std::optional<CpuLook> look;    // the first of the two; of no worth after a use
  std::shared_ptr<Turns> waking;  // of whoever begins or ends a rest
  bool hibernating = false;       // it is being put away, by who has that turn
  std::uint64_t execs = 0;
  std::map<std::uint32_t, std::string> commands;  // of the background processes we started
  interpreters::Home code;
  ToldCalls starters;              // the calls that started a process
  ToldCalls told;                  // those that had another row about one
  std::shared_ptr<Turns> files;    // whoever seals or changes its stack
  std::shared_ptr<Turns> session;  // of who asks for the whole sandbox
  bool restacking = false;         // calls that change files wait for their turn
  bool flattening = false;
  bool once = false;      // made for one command, and gone with it
  bool moving = false;    // into another tier, as what it is: nobody changes that
  bool replaced = false;  // it was started anew, and another object is it from then on
  bool leaving = false;   // on record as stopped already, and about to be
  bool lingers = false;   // stopped, and the launcher could not end it
  std::shared_ptr<std::optional<Result<SnapshotRecord>>> next_fork;  // shared by who waits

  [[nodiscard]] engine::GuestUser user() const noexcept { return {kept.uid, kept.gid}; }
};
using SandboxPtr = std::shared_ptr<Sandbox>;

[[nodiscard]] inline bool is_resting(const Sandbox& sandbox) noexcept {
  return sandbox.state == State::Running && sandbox.rest == Rest::Resting;
}

[[nodiscard]] inline bool hibernates(const Sandbox& sandbox) {
  return sandbox.state == State::Stopped && !sandbox.kept.hibernated.empty();
}

class Use {
 public:
  explicit Use(SandboxPtr sandbox) : sandbox_(std::move(sandbox)) { ++sandbox_->uses; }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() {
    --sandbox_->uses;
    sandbox_->last_use = Clock::now();
  }
  [[nodiscard]] Sandbox& operator*() const noexcept { return *sandbox_; }
  [[nodiscard]] Sandbox* operator->() const noexcept { return sandbox_.get(); }
  [[nodiscard]] const SandboxPtr& ptr() const noexcept { return sandbox_; }

 private:
  SandboxPtr sandbox_;
};

// As long as it moves into another tier. What would change its files waits for its turn, what would
// change the sandbox itself is refused.
class Moving {
 public:
  explicit Moving(SandboxPtr sandbox) : sandbox_(std::move(sandbox)) {
    sandbox_->moving = sandbox_->restacking = true;
  }
  Moving(const Moving&) = delete;
  Moving& operator=(const Moving&) = delete;
  ~Moving() { sandbox_->moving = sandbox_->restacking = false; }

 private:
  SandboxPtr sandbox_;
};

// As long as it is being put away. Goes before the turn.
class Hibernating {
 public:
  explicit Hibernating(SandboxPtr sandbox) : sandbox_(std::move(sandbox)) {
    sandbox_->hibernating = true;
  }
  Hibernating(const Hibernating&) = delete;
  Hibernating& operator=(const Hibernating&) = delete;
  ~Hibernating() { sandbox_->hibernating = false; }

 private:
  SandboxPtr sandbox_;
};

}  // namespace caisson::control
