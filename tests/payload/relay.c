// Leaves a process behind that is never the same for long: each starts the next and ends. Ends
// itself when that has gone through a hundred hands.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <unistd.h>

enum { kHops = 100, kStackBytes = 16384 };

static int g_ready;
static int g_hops;
static char g_stacks[2][kStackBytes] __attribute__((aligned(16)));

static int hop(void* unused) {
  const int now = ++g_hops;
  if (now == kHops) (void)!write(g_ready, "r", 1);
  // The next one has the other stack: ours is in use until we are gone.
  while (clone(hop, g_stacks[now % 2] + kStackBytes, CLONE_VM | CLONE_FILES | CLONE_FS, unused) <
         0) {
  }
  _exit(0);
}

int main(void) {
  int ready[2];
  char byte;
  if (pipe(ready) != 0) return 1;
  g_ready = ready[1];
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    setsid();
    hop(NULL);
  }
  return read(ready[0], &byte, 1) == 1 ? 0 : 1;
}
