// doors/rest/running.h — a command that lives as long as its caller listens.
#pragma once

#include <cstdint>
#include <memory>

#include "doors/rest/call.h"

namespace caisson::rest {

// Kills what the command started, waits for its end, and lets go of its output.
awaitable<void> end_command(Call& call, std::uint32_t process);

// Both for a stream: starts it with its output attached from the first byte.
struct RunningCommand {
  control::ProcessView view;
  std::unique_ptr<control::OutputStream> output;
};
awaitable<Result<RunningCommand>> start_attached(Call& call, control::ProcessWish wish);

// For a command whose output is collected: takes room for a little of it before it runs, and counts
// the rest as it comes. It must not be asked after the call is over.
[[nodiscard]] Result<engine::AdmitOutput> admit_output(Call& call);

// Never ends by itself: for the side of a race that has nothing more to do.
awaitable<void> wait_for_ever();

}  // namespace caisson::rest
