// engine/launcher/answers.h — what a launcher tells of its sandboxes, for all who ask one: nothing
// of how it makes them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "base/unique_fd.h"
#include "engine/gate.h"
#include "engine/launch_request.h"
#include "engine/launcher/living.h"
#include "engine/nonce.h"
#include "engine/usage.h"

namespace caisson::engine {

inline constexpr std::size_t kSandboxesMax = 4096;  // of one launcher

struct LaunchReply {
  std::string id;
  UniqueFd stream;
  GateSockets gate;
  Nonce nonce{};
  Record record;
  pid_t init_pid = 0;
};

struct Status {
  EndReason end = EndReason::Running;
  bool frozen = false;
  Usage usage;
  std::string detail;  // why init could not begin
};

}  // namespace caisson::engine
