#include "engine/microvm/clock_rate.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <poll.h>

#include <chrono>

namespace caisson::engine::microvm {
namespace {

constexpr auto kLongEnough = std::chrono::milliseconds(20);

std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return 0;
#endif
}

}  // namespace

ClockRate::ClockRate() noexcept : began_(Clock::now()), ticks_(ticks()) {}

std::uint32_t ClockRate::khz() noexcept {
  if (khz_ != 0) return khz_;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(began_ + kLongEnough - Clock::now());
  if (left.count() > 0) (void)::poll(nullptr, 0, static_cast<int>(left.count()));
  const std::uint64_t counted = ticks() - ticks_;
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began_);
  if (took.count() > 0)
    khz_ = static_cast<std::uint32_t>(counted * 1000 / static_cast<std::uint64_t>(took.count()));
  return khz_;
}

}  // namespace caisson::engine::microvm
