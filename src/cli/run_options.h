// cli/run_options.h — what a person asked `caisson run` to do.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "policy/capability.h"

namespace caisson::cli {

enum class Summary : std::uint8_t { Text, Json, None };

struct RunOptions {
  std::vector<std::string> command;
  std::optional<policy::CapabilityDeclaration> capability;
  milliseconds timeout{60'000};  // 0: none
  std::optional<policy::SandboxTier> tier;
  // Each flag that was given is declared: refused where it cannot hold. 0 in a limit means
  // "unlimited".
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> disk_bytes;
  std::optional<std::uint32_t> cpu_millis;
  std::optional<std::uint64_t> cpu_time_us;
  std::optional<std::uint32_t> processes;
  std::vector<std::string> environment;  // NAME=value
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  std::optional<std::string> workdir;
  std::vector<std::string> writable;
  std::vector<policy::NetworkEgressRule> allow;
  std::vector<std::string> name_servers;                     // instead of the host's
  std::vector<std::pair<std::string, std::string>> secrets;  // name, file
  bool show_folder = true;
  bool dry_run = false;
  Summary summary = Summary::Text;
  std::string state_dir;
};

// A value, or the exit status when nothing is left to do.
[[nodiscard]] std::expected<RunOptions, int> parse_run_options(std::span<char*> args);

}  // namespace caisson::cli
