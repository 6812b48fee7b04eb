// engine/native/trash.h — `trash/` of the state directory: what is being made or taken away there
// belongs to nobody yet, or no longer. Whoever makes something in it holds its lock meanwhile, so
// what is found under the lock was left by a process that was killed.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::engine::native {

inline constexpr std::size_t kTrashEntriesMax = 100'000;

// Held until the descriptor is closed.
[[nodiscard]] Result<UniqueFd> lock_trash(int state_dir);

[[nodiscard]] Result<void> empty_trash(const std::string& state_dir);

}  // namespace caisson::engine::native
