// engine/seccomp/assembler.h — classic BPF with names instead of offsets.
// Jumps go forward only and reach 255 instructions, as in the kernel; a program that needs more is
// a bug here.
#pragma once

#include <linux/filter.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace caisson::engine::seccomp {

class Assembler {
 public:
  class Label {
    friend class Assembler;
    explicit Label(std::size_t index) : index_(index) {}
    std::size_t index_;
  };

  // `instructions` and `labels` are only a guess of the sizes, so that memory is asked for once.
  Assembler(std::size_t instructions, std::size_t labels);

  [[nodiscard]] Label label();
  void place(Label label);  // the next instruction is what `label` means

  void load(std::uint32_t offset);  // A = 32 bits of seccomp_data at offset
  void mask(std::uint32_t bits);    // A = A & bits
  void if_equal(std::uint32_t value, Label yes, Label no) { jump(BPF_JEQ, value, yes, no); }
  void if_at_least(std::uint32_t value, Label yes, Label no) { jump(BPF_JGE, value, yes, no); }
  void if_any_bit(std::uint32_t bits, Label yes, Label no) { jump(BPF_JSET, bits, yes, no); }
  void answer(std::uint32_t action);

  // Chains of comparisons: on `no` simply go on with the next instruction.
  void if_equal(std::uint32_t value, Label yes);

  // Every label must be placed by now.
  [[nodiscard]] std::vector<sock_filter> link() &&;

 private:
  struct Jump {
    std::size_t at;
    std::size_t yes;
    std::size_t no;
  };

  void jump(std::uint16_t condition, std::uint32_t value, Label yes, Label no);
  [[nodiscard]] std::uint8_t distance(std::size_t from, std::size_t label) const;

  std::vector<sock_filter> program_;
  std::vector<std::size_t> places_;  // by label; kUnplaced until place()
  std::vector<Jump> jumps_;
};

}  // namespace caisson::engine::seccomp
