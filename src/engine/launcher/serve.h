// engine/launcher/serve.h — a launcher behind a socket.
// handle() answers one request and knows no socket; serve() feeds it from a connected
// SOCK_SEQPACKET until the peer is gone, keeps the deadlines of the sandboxes meanwhile, and makes
// things ahead when nothing is asked. Then every sandbox is destroyed: a private launcher never
// outlives the program it works for.
#pragma once

#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/launcher/core.h"
#include "sys/socket.h"

namespace caisson::engine {

struct Answer {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;
};

[[nodiscard]] Answer handle(LauncherCore& core, sys::Message request);

[[nodiscard]] Result<void> serve(LauncherCore& core, int socket);

}  // namespace caisson::engine
