// policy/settings/daiv_settings.h — the door for clients of daiv-sandbox, and the names under which
// an existing deployment of that service has configured it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/yaml_tree.h"

namespace caisson::policy {

inline constexpr std::size_t kPruneDirsMax = 256;
inline constexpr std::int64_t kDaivSecondsMax = 10LL * 365 * 24 * 3600;
inline constexpr std::int64_t kGuestIdMax = 65534;

struct DaivSettings {
  std::string api_key_file;  // its one line is the key; empty: only tokens of the server's own
  std::string api_key;       // said by the environment; never printed
  std::string tenant = "default";
  std::string prefix = "/api/v1";
  std::string version = "v0.6.0";
  std::int64_t run_uid = 1000;
  std::int64_t run_gid = 1000;
  std::int64_t command_timeout_seconds = 0;  // 0: none
  std::int64_t lock_wait_seconds = 30;
  bool close_removes = false;  // what DELETE without `force` does to a session of the newer API
  std::vector<std::string> prune_dirs;  // that searches do not go into
  bool reaper = true;
  std::int64_t reaper_interval_seconds = 600;
  std::int64_t grace_seconds = 43'200;  // of a stopped session
  std::int64_t max_stopped = 50;
  std::int64_t running_idle_seconds = 14'400;  // 0: for ever

  DaivSettings();
  friend bool operator==(const DaivSettings&, const DaivSettings&) = default;
};

[[nodiscard]] Result<std::vector<std::string>> read_prune_dirs(const YamlNode& node,
                                                               std::string_view path);
[[nodiscard]] Result<std::string> read_door_prefix(const YamlNode& node, std::string_view path);

// DAIV_SANDBOX_<name> is this setting of ours.
struct DaivVariable {
  std::string_view name;
  std::string_view path;
};
[[nodiscard]] std::span<const DaivVariable> daiv_variables() noexcept;

}  // namespace caisson::policy
