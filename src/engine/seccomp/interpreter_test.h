// Classic BPF as the kernel runs it over seccomp_data, small enough to be believed. For tests only.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>

namespace caisson::engine::seccomp {

struct Call {
  std::uint32_t number = 0;
  std::array<std::uint64_t, 6> arguments{};
  std::uint32_t architecture = AUDIT_ARCH_X86_64;
};

struct Answer {
  std::uint32_t action = 0;
  std::size_t steps = 0;
};

// Nothing when the program leaves its own bounds or uses an instruction that no filter of ours has.
inline std::optional<Answer> interpret(std::span<const sock_filter> program, const Call& call) {
  seccomp_data data{};
  data.nr = static_cast<int>(call.number);
  data.arch = call.architecture;
  std::ranges::copy(call.arguments, std::begin(data.args));
  std::uint32_t a = 0;
  std::size_t steps = 0;
  for (std::size_t pc = 0; pc < program.size(); ++pc) {
    const sock_filter& in = program[pc];
    ++steps;
    switch (in.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (in.k % 4 != 0 || in.k > sizeof(data) - 4) return std::nullopt;
        std::memcpy(&a, reinterpret_cast<const char*>(&data) + in.k, 4);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        a &= in.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        pc += a == in.k ? in.jt : in.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        pc += a >= in.k ? in.jt : in.jf;
        break;
      case BPF_JMP | BPF_JGT | BPF_K:
        pc += a > in.k ? in.jt : in.jf;
        break;
      case BPF_JMP | BPF_JSET | BPF_K:
        pc += (a & in.k) != 0 ? in.jt : in.jf;
        break;
      case BPF_JMP | BPF_JA:
        pc += in.k;
        break;
      case BPF_RET | BPF_K:
        return Answer{.action = in.k, .steps = steps};
      default:
        return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace caisson::engine::seccomp
