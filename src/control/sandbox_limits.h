// control/sandbox_limits.h — the three layers of limits, for sandbox_spec.cc alone.
#pragma once

#include "control/fleet.h"

namespace caisson::control {

[[nodiscard]] Result<void> check_limits(const LimitWish& wish);
[[nodiscard]] LimitWish overlay(const LimitWish& wish, const LimitWish& profile,
                                const LimitWish& server);
[[nodiscard]] engine::Limits limits_of(const LimitWish& wish);

}  // namespace caisson::control
