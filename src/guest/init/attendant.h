// guest/init/attendant.h — signals of a terminal whose kernel sends none. gVisor's line discipline
// makes no signal of ^C and tells nobody outside of a session who is in the foreground there. So
// one process of ours lives in the session: init reads the keys and the attendant knows for whom
// they are.
//
// It is born by the tenant's child before that gives up init's id, so nobody inside can signal it;
// it shares init's memory as a birth does, for as long as the terminal has a leader, and its parent
// is init.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace caisson::init {

constexpr size_t kAttendantsMax = 16;
constexpr size_t kAttendantStack = 16UL * 1024;

struct Attendant {
  alignas(64) uint8_t thread[256];
  int pid;    // 0 while there is none; written by whoever gives birth to it
  int words;  // where signals' numbers come from
  int terminal;
  int used;
  alignas(64) uint8_t stack[kAttendantStack];
};

// In the session's first process: `words` and `terminal` are its descriptors. 0, or -errno.
long leave_attendant(Attendant& attendant);

}  // namespace caisson::init
