#include "guest/init/birth.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

namespace caisson::init {
namespace {

#if !defined(__x86_64__)
#error "where libc keeps its thread is known for x86-64 only"
#endif

int run(void* plan) { run_tenant(*static_cast<const TenantPlan*>(plan)); }

}  // namespace

long give_birth(Birth& birth) {
  // On x86-64 musl's thread begins where the thread pointer leads, with a pointer to itself.
  memcpy(birth.thread, __builtin_thread_pointer(), sizeof(birth.thread));
  void* self = birth.thread;
  memcpy(birth.thread, &self, sizeof(self));
  __atomic_store_n(&birth.busy, 1, __ATOMIC_RELEASE);
  constexpr int kHow = CLONE_VM | CLONE_SETTLS | CLONE_CHILD_CLEARTID | SIGCHLD;
  const int pid =
      clone(run, birth.stack + sizeof(birth.stack), kHow, &birth.plan, nullptr, self, &birth.busy);
  birth.pid = pid;
  if (pid >= 0) return pid;
  const int reason = errno;
  birth.busy = 0;
  return -reason;
}

}  // namespace caisson::init
