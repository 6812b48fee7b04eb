// base/clock.h — deadlines live on the monotonic clock; the wall clock is for people only.
#pragma once

#include <chrono>

namespace caisson {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC on Linux
using TimePoint = Clock::time_point;
using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

}  // namespace caisson
