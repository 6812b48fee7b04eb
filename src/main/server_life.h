// main/server_life.h — the server's life: opens its parts in order, says that it is ready, obeys
// signals, and ends in order.
//
// SIGTERM and SIGINT end it: no new call is taken, running ones get --drain seconds, then every
// sandbox is destroyed and the launcher stops; a second signal cuts the waiting short. SIGHUP reads
// the settings again and takes over what can change. SIGKILL leaves the sandboxes to the next one.
#pragma once

#include "base/result.h"
#include "main/server_options.h"

namespace caisson::server {

[[nodiscard]] Result<void> serve(const ServerFlags& flags);

}  // namespace caisson::server
