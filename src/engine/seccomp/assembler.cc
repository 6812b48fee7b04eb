#include "engine/seccomp/assembler.h"

#include <limits>
#include <utility>

#include "base/result.h"

namespace caisson::engine::seccomp {
namespace {

constexpr std::size_t kUnplaced = std::numeric_limits<std::size_t>::max();

}  // namespace

Assembler::Assembler(std::size_t instructions, std::size_t labels) {
  program_.reserve(instructions);
  jumps_.reserve(instructions);
  places_.reserve(labels);
}

Assembler::Label Assembler::label() {
  places_.push_back(kUnplaced);
  return Label(places_.size() - 1);
}

void Assembler::place(Label label) {
  CAISSON_ASSERT(places_[label.index_] == kUnplaced);
  places_[label.index_] = program_.size();
}

void Assembler::load(std::uint32_t offset) {
  program_.push_back({.code = BPF_LD | BPF_W | BPF_ABS, .jt = 0, .jf = 0, .k = offset});
}

void Assembler::mask(std::uint32_t bits) {
  program_.push_back({.code = BPF_ALU | BPF_AND | BPF_K, .jt = 0, .jf = 0, .k = bits});
}

void Assembler::answer(std::uint32_t action) {
  program_.push_back({.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = action});
}

void Assembler::if_equal(std::uint32_t value, Label yes) {
  const Label next = label();
  if_equal(value, yes, next);
  place(next);
}

void Assembler::jump(std::uint16_t condition, std::uint32_t value, Label yes, Label no) {
  jumps_.push_back({.at = program_.size(), .yes = yes.index_, .no = no.index_});
  const auto code = static_cast<std::uint16_t>(BPF_JMP | condition | BPF_K);
  program_.push_back({.code = code, .jt = 0, .jf = 0, .k = value});
}

std::uint8_t Assembler::distance(std::size_t from, std::size_t label) const {
  const std::size_t to = places_[label];
  CAISSON_ASSERT(to != kUnplaced && to > from && to < program_.size());
  CAISSON_ASSERT(to - from - 1 <= std::numeric_limits<std::uint8_t>::max());
  return static_cast<std::uint8_t>(to - from - 1);
}

std::vector<sock_filter> Assembler::link() && {
  for (const Jump& jump : jumps_) {
    program_[jump.at].jt = distance(jump.at, jump.yes);
    program_[jump.at].jf = distance(jump.at, jump.no);
  }
  return std::move(program_);
}

}  // namespace caisson::engine::seccomp
