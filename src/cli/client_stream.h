// cli/client_stream.h — between the caller's descriptors and a process behind a WebSocket, until it
// ends. One poll loop, as in relay.h: what the caller does not take yet is not read from the
// server, and what the server does not take yet is not read from the caller; so both sides feel
// each other's pace, and nothing piles up here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/remote.h"

namespace caisson::cli {

// Exec: binary messages begin with a byte that names the stream. Terminal: they are its bytes.
enum class Framing : std::uint8_t { Exec, Terminal };

struct StreamDescriptors {
  int input = 0;
  int output = 1;
  int error = 2;
  int signals = -1;  // of watch_signals(); -1: none are watched
};

struct StreamEnd {
  enum class How : std::uint8_t {
    Exited,        // exit_code says how
    Failed,        // the server could not start it or lost it: error
    Lost,          // the connection ended before it did
    OutputClosed,  // nobody reads what it prints any more
    Left,          // a signal told us to leave
  };
  How how = How::Lost;
  int exit_code = 0;
  bool timed_out = false;
  bool oom_killed = false;
  std::optional<Error> error;
  std::uint64_t process = 0;  // as the server numbers it; 0 until it is known
};

[[nodiscard]] Result<StreamEnd> relay_socket(RemoteSocket& socket, Framing framing,
                                             const StreamDescriptors& descriptors);

// Exit status of the command line for such an end.
[[nodiscard]] int exit_status_of(const StreamEnd& end) noexcept;

}  // namespace caisson::cli
