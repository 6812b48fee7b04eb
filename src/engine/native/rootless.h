// engine/native/rootless.h — an ordinary user becomes root of a user namespace of his own, where he
// may do what a launch needs. Nothing there reaches beyond what the kernel lets his own id do
// outside.
#pragma once

#include "base/result.h"
#include "engine/host/features.h"

namespace caisson::engine::native {

// Moves the calling, single-threaded process into new user, mount, network and ipc namespaces. With
// sub-ids (by newuidmap) 0 stands for the caller and 1 to 65536 for his range; without, 0 alone.
[[nodiscard]] Result<void> enter_outer_namespace(const HostFeatures& host);

}  // namespace caisson::engine::native
