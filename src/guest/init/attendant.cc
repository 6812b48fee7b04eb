#include "guest/init/attendant.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "guest/init/sys.h"

namespace caisson::init {
namespace {

// All signals are blocked, as init's are.
int attend(void* argument) {
  const Attendant& self = *static_cast<const Attendant*>(argument);
  (void)setpgid(0, 0);
  const auto words = static_cast<unsigned>(self.words);
  const auto terminal = static_cast<unsigned>(self.terminal);
  const unsigned first = words < terminal ? words : terminal;
  const unsigned second = words < terminal ? terminal : words;
  if (first != 0) (void)close_from(0, first - 1);
  if (second > first + 1) (void)close_from(first + 1, second - 1);
  (void)close_from(second + 1, ~0U);
  for (;;) {
    uint8_t number = 0;
    const ssize_t got = read(self.words, &number, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got != 1) _exit(0);
    int foreground = 0;
    if (ioctl(self.terminal, TIOCGPGRP, &foreground) == 0 && foreground > 1)
      (void)kill(-foreground, number);
  }
}

}  // namespace

long leave_attendant(Attendant& attendant) {
  memcpy(attendant.thread, __builtin_thread_pointer(), sizeof(attendant.thread));
  void* self = attendant.thread;
  memcpy(attendant.thread, &self, sizeof(self));
  // CLONE_PARENT: the tenant's own children are those that it makes itself.
  constexpr int kHow = CLONE_VM | CLONE_SETTLS | CLONE_PARENT | SIGCHLD;
  const int pid =
      clone(attend, attendant.stack + sizeof(attendant.stack), kHow, &attendant, nullptr, self);
  if (pid < 0) return -errno;
  __atomic_store_n(&attendant.pid, pid, __ATOMIC_RELEASE);
  return 0;
}

}  // namespace caisson::init
