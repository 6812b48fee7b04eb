// sys/spawn.h — another program as a child, with exactly the descriptors it is handed.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "sys/process.h"

namespace caisson::sys {

struct HandedFd {
  const char* path = nullptr;  // a file that the child opens for reading and writing, or
  int fd = -1;                 // one of ours
  int number = -1;             // what the child sees it as
};

enum class Session : std::uint8_t {
  Shared,
  Own,  // signals that a terminal sends to us do not reach it
};

// `program` is a path, or a name that is looked for. The environment is ours.
[[nodiscard]] Result<Child> spawn(const std::string& program,
                                  const std::vector<std::string>& arguments,
                                  std::span<const HandedFd> handed, Session session);

}  // namespace caisson::sys
