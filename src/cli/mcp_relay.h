// cli/mcp_relay.h — between a client's pipes and the server's /mcp: bytes as they are, both ways.
//
// The server reads and writes the lines; this passes them on. What the client does not take yet is
// not read from the server, and the other way round, so nothing piles up here.
#pragma once

#include "base/result.h"
#include "cli/remote.h"

namespace caisson::cli {

struct McpPipes {
  int input = 0;
  int output = 1;
  int signals = -1;  // of watch_signals(); -1: none are watched
};

// Until the client has closed its end and had its last answers, or leaves, or the server does
// (Gone). A signal ends it at once.
[[nodiscard]] Result<void> relay_mcp(RemoteSocket& socket, const McpPipes& pipes);

}  // namespace caisson::cli
