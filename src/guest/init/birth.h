// guest/init/birth.h — a tenant between clone and exec that shares init's memory. Behind another
// kernel a fork costs more than the rest of a start together, because each page of init's is looked
// at; a clone that borrows the memory until its exec costs a fifth of it.
//
// init does not wait for the exec, as vfork would: a sibling may stop the half-made child for ever.
// So child and init run at the same time in the same memory, and everything that the child touches
// is its own: a birth has its stack, its libc state (errno), its arguments and its plan. The kernel
// clears `busy` when the child has let go of the memory, by exec or by death. When all births are
// taken, a tenant is forked plainly.
//
// The memory is not dumpable, so nobody with the tenant's id can look into it through the child.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/init/child.h"

namespace caisson::init {

constexpr size_t kBirthsMax = 8;
constexpr size_t kBirthStack = 64UL * 1024;
constexpr size_t kThreadBytes = 256;  // of libc's own, as far as a child uses it

struct Birth {
  alignas(64) uint8_t thread[kThreadBytes];
  int busy;  // the child's number until the kernel clears it
  int pid;
  TenantPlan plan;
  alignas(64) uint8_t stack[kBirthStack];
};

// A child that runs `birth.plan`. Its number, or -errno.
long give_birth(Birth& birth);

}  // namespace caisson::init
