// cli/relay.h — between the caller's descriptors and one process in a sandbox, until it ends.
//
// One poll loop: standard input goes in as the process takes it, output comes out as the caller
// takes it, byte for byte. Whoever is slow holds up only his own stream, because init sends no more
// than we gave credit for. Signals that we get go to the process. The launcher's deadlines are kept
// here too, as it lives in this process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/link/guest_link.h"
#include "guest/protocol/protocol.h"

namespace caisson::engine {
class LauncherCore;
}

namespace caisson::cli {

struct RelayOutcome {
  std::optional<wire::ExitedBody> exited;  // none: the sandbox ended under it
  std::optional<Error> not_started;        // the command could not be started
  wire::Step not_started_at{};             // and where it failed
  std::string closed_output;               // "standard output" when the caller closed it
};

constexpr std::uint32_t kRelayed = 1;  // the process, on its link

struct RelayRequest {
  bool terminal = false;
  std::optional<TimePoint> give_up;  // init should have ended the process by then
};

// Blocks SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGWINCH in this process and ignores SIGPIPE: call it
// before the launch.
[[nodiscard]] Result<UniqueFd> watch_signals();

[[nodiscard]] Result<RelayOutcome> relay(engine::LauncherCore& core, const std::string& id,
                                         engine::GuestLink& link, const RelayRequest& request,
                                         int signals);

}  // namespace caisson::cli
