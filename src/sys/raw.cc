#include "sys/raw.h"

#include <cerrno>

namespace caisson::sys::raw {

long clone3_on_stack(clone_args& arguments, void (*entry)(void*), void* argument) noexcept {
#if defined(__x86_64__)
  long result = SYS_clone3;
  register void (*entry_register)(void*) __asm__("r8") = entry;
  register void* argument_register __asm__("r9") = argument;
  // In the child rax is 0, rsp the new stack: call entry(argument) there and never come back.
  __asm__ volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %%r9, %%rdi\n\t"
      "call *%%r8\n\t"
      "hlt\n"
      "1:"
      : "+a"(result)
      : "D"(&arguments), "S"(sizeof(arguments)), "r"(entry_register), "r"(argument_register)
      : "rcx", "r11", "memory", "cc");
#elif defined(__aarch64__)
  register long result __asm__("x0") = reinterpret_cast<long>(&arguments);
  register long size __asm__("x1") = sizeof(arguments);
  register long number __asm__("x8") = SYS_clone3;
  register void (*entry_register)(void*) __asm__("x10") = entry;
  register void* argument_register __asm__("x11") = argument;
  __asm__ volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x0, x11\n\t"
      "blr x10\n\t"
      "brk #1\n"
      "1:"
      : "+r"(result)
      : "r"(size), "r"(number), "r"(entry_register), "r"(argument_register)
      : "memory", "cc");
#else
#error "clone3_on_stack is written for x86-64 and aarch64"
#endif
  if (result < 0) {
    errno = static_cast<int>(-result);
    return -1;
  }
  return result;
}

}  // namespace caisson::sys::raw
