// control/local_spec.h — a sandbox for somebody on this machine: his capability, his current
// folder, his grants.
//
// The current folder appears inside at its own path: as a private copy whose changes are discarded,
// or read-only, as the capability says. Folders that he grants for writing are bound for real. Each
// is held by descriptor from the moment it is judged, so what is mounted is what was judged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/plan.h"
#include "policy/capability.h"

namespace caisson::control {

struct LocalWish {
  std::optional<policy::CapabilityDeclaration> capability;  // none: friendly defaults
  std::optional<std::string> current_folder;                // none: an empty /workspace
  std::vector<std::string> writable;                        // folders of the host, for real
  std::string home;  // the caller's home folder, never shown as a whole
  std::string state_dir;
};

struct LocalSpec {
  engine::SandboxSpec spec;
  std::vector<UniqueFd> folders;  // in the order of spec.request.folders
  std::string workdir;
  std::vector<std::string> remarks;  // one line each, for a person
};

[[nodiscard]] Result<LocalSpec> local_spec(const LocalWish& wish);

// Why this folder of the host is never shown, or nothing.
[[nodiscard]] std::optional<std::string> refusal(const std::string& real_path,
                                                 const std::string& home,
                                                 const std::string& state_dir);

// Variables every sandbox has; the caller's own come after them.
[[nodiscard]] std::vector<std::string> base_environment(const engine::LaunchRequest& request,
                                                        const std::string& workdir);

// Sets each NAME=value of `more` in `environment`, where the last word about a name counts and each
// name stands once: of two, some programs see the first and some the second.
void set_variables(std::vector<std::string>& environment, const std::vector<std::string>& more);

// $CAISSON_STATE_DIR; for root /var/lib/caisson; for others $XDG_STATE_HOME/caisson or
// ~/.local/state/caisson.
[[nodiscard]] std::string default_state_dir(unsigned euid);

}  // namespace caisson::control
