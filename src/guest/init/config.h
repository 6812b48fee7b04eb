// guest/init/config.h — what the launcher decided for this sandbox, read once from the control
// socket.
#pragma once

#include <linux/filter.h>
#include <stdint.h>

#include "guest/protocol/codec.h"

namespace caisson::init {

// Descriptors that a child keeps until its exec sit at fixed numbers, so that one close_range ends
// all others.
constexpr int kFdRuleset = wire::kFdBase;  // which is needed once, before
constexpr int kFdReport = 8;
constexpr int kFdFirstFree = 9;

struct StartFailure {
  int sys_errno = 0;
  wire::Step step = wire::Step::None;
  [[nodiscard]] bool ok() const { return step == wire::Step::None; }
};

struct Config {
  wire::InitConfig wire{};
  sock_fprog filter{};    // filter.len 0: none
  bool landlock = false;  // kFdRuleset holds a ruleset
  uint32_t own_uid = 0;   // no tenant may have it: he could signal init
  bool carried = false;   // another kernel lies between us and the host
  int oom_score = -1;     // /proc/self/oom_score_adj, when tenants' score is raised

  [[nodiscard]] bool has(uint32_t flag) const { return (wire.flags & flag) != 0; }
};

// Reads the first message of kFdControl, fills `config`, enters the Landlock scopes and builds the
// tenants' ruleset.
StartFailure read_config(Config& config);

// The same with a message that somebody else has read.
StartFailure configure(Config& config, wire::Bytes message, wire::ControlKind wanted);
// What a copy of the guest is told when it goes on: another nonce, other limits and rules.
StartFailure reconfigure(Config& config, wire::Bytes message);

// Reads a message of kind Rules, which is there: the rules of tenants that start from now on.
StartFailure read_rules(Config& config);

// landlock.cc
// `base`: the folder below which everything lies, now and later.
StartFailure enter_scopes(bool sockets, int base);
StartFailure build_ruleset(wire::Bytes rules, uint32_t count);

}  // namespace caisson::init
