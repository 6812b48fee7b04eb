// engine/native/devices.h — a /dev with six harmless nodes.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/host/features.h"

namespace caisson::engine::native {

struct Mounted {
  std::string target;  // below the root, without the leading slash
  UniqueFd mount;
};

// As one read-only mount that every sandbox gets a copy of. An ordinary user cannot make nodes: his
// has empty files, on which borrow_device_nodes() puts the host's own.
[[nodiscard]] Result<UniqueFd> make_device_folder(bool privileged);
[[nodiscard]] Result<std::vector<Mounted>> borrow_device_nodes();

}  // namespace caisson::engine::native
