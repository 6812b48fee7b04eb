// sys/loop_device.h — a file as a block device.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::sys {

struct LoopDevice {
  UniqueFd device;   // while it is open, or something is mounted from it, the device stays
  std::string path;  // /dev/loopN
};

// The device that shows `file` already, or a new one. It goes by itself with its last user. Two
// devices on one file would be two caches of the same bytes, so there is never a second.
[[nodiscard]] Result<LoopDevice> attach_loop(int file);

}  // namespace caisson::sys
