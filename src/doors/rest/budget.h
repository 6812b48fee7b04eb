// doors/rest/budget.h — the budget of bytes (doors/shared/budget.h) in the words of this door.
#pragma once

#include "doors/shared/budget.h"

namespace caisson::rest {

using doors::Budget;
using doors::kUncountedBytesMax;

// Taken before it is known how much there will be.
inline constexpr std::size_t kListingBytes = 32UL * 1024 * 1024;  // of a folder
inline constexpr std::size_t kToolFileBytes = 8UL * 1024 * 1024;  // of file_read
inline constexpr std::size_t kCommandBytes = 64UL * 1024;         // of a command's output
inline constexpr std::size_t kTransferBytes = 1024UL * 1024;      // of a download

}  // namespace caisson::rest
