// control/sandbox_limits.h — the three layers of limits, for sandbox_spec.cc and for processes that
// were kept.
#pragma once

#include "control/fleet.h"

namespace caisson::control {

[[nodiscard]] Result<void> check_limits(const LimitWish& wish);
[[nodiscard]] LimitWish overlay(const LimitWish& wish, const LimitWish& profile,
                                const LimitWish& server);
// What a caller or a profile asked for is not above the most; what nobody asked for is the most.
[[nodiscard]] Result<void> apply_most(LimitWish& limits, const LimitWish& most);
// Denied when limits that hold already are above the most, or are none where there is a most.
[[nodiscard]] Result<void> check_most(const engine::Limits& limits, const LimitWish& most);
[[nodiscard]] engine::Limits limits_of(const LimitWish& wish);

}  // namespace caisson::control
