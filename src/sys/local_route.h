// sys/local_route.h — addresses of our own on lo of the calling thread's network: a whole range, or
// one that programs see when they ask which addresses this machine has.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace caisson::sys {

// `address` has 4 or 16 bytes. A range that is ours already is no error.
[[nodiscard]] Result<void> add_local_route(std::span<const std::uint8_t> address, unsigned bits);

[[nodiscard]] Result<void> add_loopback_address(std::span<const std::uint8_t> address);

}  // namespace caisson::sys
