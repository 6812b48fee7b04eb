// cli/serve_launcher.h — finds the launcher of a state directory, or starts the pair.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/serve.h"

namespace caisson::cli {

struct LauncherWishes {
  std::int64_t orphan_grace_seconds = 600;
  std::uint64_t store_bytes = 0;  // of a store that is yet to be made; 0: the launcher decides
};

// How a launcher begins its one line when another one has its place still.
inline constexpr std::string_view kPlaceTaken = "taken: ";

// When this returns, a launcher answers at the state directory's socket. One that is started here
// lives in a session of its own: neither the terminal nor the server's end reaches it.
[[nodiscard]] Result<void> ensure_launcher(const std::string& state_dir,
                                           const ServerIdentity& server,
                                           const LauncherWishes& wishes);

}  // namespace caisson::cli
