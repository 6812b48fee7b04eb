// guest/init/child.h — from fork to exec. The child allocates nothing, takes no decision that the
// parent could take, and does its steps in the one order that is safe; each failure is a record in
// a page it shares with init.
#pragma once

#include <stdint.h>

#include "guest/init/attendant.h"
#include "guest/init/config.h"

namespace caisson::init {

struct ChildFailure {
  int32_t sys_errno;
  uint32_t step;  // wire::Step; None while nothing failed
};

struct TenantPlan {  // no owners in here: the parent owns, the child only looks
  const Config* config;
  char* const* argv;
  char* const* envp;
  const char* path;  // value of PATH in envp, or null
  const char* cwd;
  const uint32_t* groups;
  uint32_t group_count;
  uint32_t uid;
  uint32_t gid;
  int stdio[3];
  bool terminal;         // stdio are one terminal, which becomes the controlling one
  Attendant* attendant;  // to be left in the session; none where the terminal needs none
  int report;            // -1: nobody waits for the exec
  ChildFailure* failure;
};

[[noreturn]] void run_tenant(const TenantPlan& plan);

// What tenants and file operations have in common, each step -errno or 0. Limits that init itself
// can live with are set once, on init, and inherited; the others are set by each child.
long limit_self(const Config& config);
long limit_child(const Config& config);
long reset_signals();

}  // namespace caisson::init
