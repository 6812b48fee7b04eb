// engine/microvm/clock_rate.h — how fast the host's time stamp counter counts. An emulated guest
// that has to find out for itself may never boot on a busy host.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace caisson::engine::microvm {

class ClockRate {
 public:
  ClockRate() noexcept;
  // In kHz, since this object was made; waits until that was long enough to be exact. 0 where the
  // processor has no such counter.
  [[nodiscard]] std::uint32_t khz() noexcept;

 private:
  TimePoint began_;
  std::uint64_t ticks_;
  std::uint32_t khz_ = 0;
};

}  // namespace caisson::engine::microvm
