// guest/layer/confine.h — the walls that caisson-layer puts around itself, from the launcher's
// InitConfig. After confine() nothing is left to it but the files of its job.
#pragma once

#include <cstdint>
#include <span>

#include "guest/protocol/protocol.h"

namespace caisson::layer {

struct StartFailure {
  int sys_errno = 0;
  wire::Step step = wire::Step::None;
  [[nodiscard]] bool ok() const noexcept { return step == wire::Step::None; }
};

// `message` is the control socket's first: limits, Landlock rules and filter, in this order.
[[nodiscard]] StartFailure confine(std::span<const std::uint8_t> message);

}  // namespace caisson::layer
