// engine/native/part.h — a program of the host that stands beside a carrier: what runs the other
// kernel of a tier. It is started into the sandbox as that carrier is: into its groups, its network
// and its pid namespace, so limits, freezing and killing reach it, and nothing of it outlives
// process 1 of the sandbox, however that ended. It sees the mounts that are handed to it, and
// nothing of the host; it has the ids and capabilities of a user namespace, and none outside.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "engine/native/devices.h"

namespace caisson::engine::native {

struct HandedDescriptor {
  int fd = -1;
  int number = -1;  // what the program sees it as
};

struct PartProgram {
  int program = -1;  // executed by descriptor
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  // What it sees. The root has a folder `proc`, which gets one, and the places of the mounts.
  UniqueFd root;
  std::vector<Mounted> mounts;
  int user_namespace = -1;
  uid_t uid = 0;  // inside that one
  gid_t gid = 0;
  std::uint64_t capabilities = 0;
  // By rising number, from 0 on.
  std::vector<HandedDescriptor> descriptors;
};

}  // namespace caisson::engine::native
