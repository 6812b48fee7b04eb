// engine/native/restack.h — another root under a living sandbox in which nothing but init runs.
//
// The caller has frozen it. The calling process goes into the sandbox's mount namespace, puts the
// new root over the old, hands the mounts that stay from one to the other, and comes back. The
// mounts are then no longer locked to each other, as those of a launch are; nobody inside could
// move one anyway, without a capability and behind a filter that knows no mount call.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/native/devices.h"

namespace caisson::engine::native {

struct LivingMounts {
  int pidfd = -1;       // of init
  int own_mounts = -1;  // to come back to
};

// No file of these mounts can be opened for writing any more, nor is one open; Busy otherwise.
// All or none of them.
[[nodiscard]] Result<void> fence_mounts(const LivingMounts& living,
                                        const std::vector<std::string>& paths);
[[nodiscard]] Result<void> open_fence(const LivingMounts& living,
                                      const std::vector<std::string>& paths);

// `root` and `mounts` are detached; `kept` are paths at which the old root has a mount. What comes
// back holds the old root: whoever lets go of it last makes the kernel forget every file of it.
[[nodiscard]] Result<UniqueFd> replace_root(const LivingMounts& living, int root,
                                            std::span<const Mounted> mounts,
                                            const std::vector<std::string>& kept);

}  // namespace caisson::engine::native
