// engine/native/own_process.h — what the kernel lets this very process do, changed for good.
#pragma once

#include <sys/types.h>

#include "base/result.h"

namespace caisson::engine::native {

// Gives up everything that root has: groups, ids, every capability set, the bounding set, the
// session's keys, and the way back through a setuid program. From here on this process is nobody
// special. It is an error if anything of it did not hold.
[[nodiscard]] Result<void> become_unprivileged(uid_t uid, gid_t gid);

// Processes whose parent dies become our children, whoever of our descendants that parent was: we
// can then wait until the last of them is gone.
[[nodiscard]] Result<void> adopt_orphans();

}  // namespace caisson::engine::native
