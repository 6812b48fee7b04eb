// engine/launcher/ceiling.h — what root allows a server to ask for, whatever the server says.
//
// A file of `key value` lines in the launcher's own folder, which the server can neither read nor
// write: a server that was taken over stays below it. Without the file there is no upper bound but
// the launcher's own, folders of the host are not shown at all, and no filter is relaxed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/launch_request.h"

namespace caisson::engine {

inline constexpr std::size_t kCeilingBytesMax = 16UL * 1024;

// 0: no bound by the ceiling.
struct Ceiling {
  std::uint64_t memory_bytes_max = 0;
  std::uint64_t processes_max = 0;
  std::uint64_t sandboxes_max = 0;
  std::uint64_t cpu_millis_max = 0;
  std::uint64_t disk_bytes_max = 0;
  bool folders = false;  // may folders of the host be shown in a sandbox
  bool debug = false;    // may processes of a sandbox trace each other: seccomp::Profile::Debug

  // For a private launcher: its caller is the one who could do all of it himself.
  [[nodiscard]] static Ceiling none() {
    Ceiling ceiling;
    ceiling.folders = true;
    ceiling.debug = true;
    return ceiling;
  }
  friend bool operator==(const Ceiling&, const Ceiling&) = default;
};

[[nodiscard]] Result<Ceiling> parse_ceiling(std::string_view text);

// `launcher/ceiling` of the state directory as it stands now. One that cannot be read, or that
// somebody else than root could have written, is an error: nothing is launched beneath it.
[[nodiscard]] Result<Ceiling> load_ceiling(const std::string& state_dir);

// Denied, naming the key. No limit at all is beyond any bound.
[[nodiscard]] Result<void> permit(const Ceiling& ceiling, const Limits& limits);
[[nodiscard]] Result<void> permit(const Ceiling& ceiling, const LaunchRequest& request,
                                  std::size_t living);

}  // namespace caisson::engine
