// A tree that does not want to die: daemons, ignored and blocked signals, stopped and traced
// children, a vfork that never ends, and a chain that forks for as long as it lives. Prints a line
// when all of it stands.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static void deafen(void) {
  sigset_t all;
  sigfillset(&all);
  for (int number = 1; number < 65; ++number) signal(number, SIG_IGN);
  sigprocmask(SIG_SETMASK, &all, NULL);
}

static void daemonise(void) {
  if (fork() != 0) _exit(0);
  setsid();
  if (fork() != 0) _exit(0);
}

static void rest(void) {
  for (;;) pause();
}

static void stopped(void) {
  for (;;) raise(SIGSTOP);
}

// Leaves its place to a fresh process before anybody could have read its number.
static void chain(void) {
  daemonise();
  for (;;) {
    const pid_t next = fork();
    if (next == 0) {
      setsid();
      continue;
    }
    if (next > 0) _exit(0);
  }
}

static void held_by_vfork(void) {
  if (vfork() == 0) rest();
}

static void traced(void) {
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    rest();
  }
  waitpid(child, NULL, WUNTRACED);  // stopped, and nobody lets it go on
  rest();
}

int main(int argc, char** argv) {
  void (*const heads[])(void) = {rest, stopped, chain, held_by_vfork, traced};
  deafen();
  for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); ++i) {
    for (int as_daemon = 0; as_daemon < 2; ++as_daemon) {
      if (fork() != 0) continue;
      if (as_daemon) daemonise();
      heads[i]();
      _exit(0);
    }
  }
  puts("standing");
  fflush(stdout);
  if (argc > 1 && strcmp(argv[1], "leave") == 0) return 0;
  rest();
}
