// engine/microvm/lz4.h — the one form of LZ4 that kernels are packed in, the "legacy" frame: blocks
// of up to 8 MiB, each behind its size. Two dozen lines are less than another library.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"

namespace caisson::engine::microvm {

// Stops where no block can follow: a kernel image has its size behind them.
[[nodiscard]] Result<std::vector<std::byte>> from_lz4(std::span<const std::byte> packed,
                                                      std::size_t bytes_max);

}  // namespace caisson::engine::microvm
