#include "policy/settings/daiv_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/settings/setting_value.h"
#include "policy/wording.h"

namespace caisson::policy {
namespace {

using namespace setting;  // NOLINT(google-build-using-namespace): the words of this file

constexpr std::array<std::string_view, 29> kPruneDirs = {".git",
                                                         ".hg",
                                                         ".svn",
                                                         ".idea",
                                                         ".vs",
                                                         "__pycache__",
                                                         ".ruff_cache",
                                                         ".mypy_cache",
                                                         ".pytest_cache",
                                                         ".pyre",
                                                         ".pytype",
                                                         ".hypothesis",
                                                         ".ipynb_checkpoints",
                                                         "*.egg-info",
                                                         ".eggs",
                                                         ".next",
                                                         ".nuxt",
                                                         ".svelte-kit",
                                                         ".turbo",
                                                         ".parcel-cache",
                                                         ".angular",
                                                         ".vite",
                                                         ".astro",
                                                         ".docusaurus",
                                                         ".cache",
                                                         ".phpunit.cache",
                                                         ".gradle",
                                                         "target",
                                                         "obj"};

constexpr std::array<DaivVariable, 12> kVariables = {{
    {"API_V1_STR", "daiv.prefix"},
    {"RUN_UID", "daiv.run_uid"},
    {"RUN_GID", "daiv.run_gid"},
    {"COMMAND_TIMEOUT", "daiv.command_timeout_seconds"},
    {"FS_PRUNE_DIRS", "daiv.prune_dirs"},
    {"REAPER_ENABLED", "daiv.reaper"},
    {"REAPER_INTERVAL_SECONDS", "daiv.reaper_interval_seconds"},
    {"SESSION_GRACE_SECONDS", "daiv.grace_seconds"},
    {"MAX_STOPPED_SESSIONS", "daiv.max_stopped"},
    {"RUNNING_SESSION_MAX_IDLE_SECONDS", "daiv.running_idle_seconds"},
    {"SESSION_LOCK_WAIT_SECONDS", "daiv.lock_wait_seconds"},
    {"LOG_LEVEL", "logging.level"},
}};

}  // namespace

DaivSettings::DaivSettings() {
  for (const std::string_view name : kPruneDirs) prune_dirs.emplace_back(name);
}

Result<std::vector<std::string>> read_prune_dirs(const YamlNode& node, std::string_view path) {
  TRY(require_list(node, path, kPruneDirsMax));
  std::vector<std::string> out;
  for (const YamlNode& item : node.items) {
    std::string text = TRY(read_text(item, path, 255));
    if (text.empty() || text.find('/') != std::string::npos)
      return wrong(
          item, path,
          fmt::format("want the name of a folder, * and ? allowed, found {}", in_quotes(text)));
    out.push_back(std::move(text));
  }
  return out;
}

Result<std::string> read_door_prefix(const YamlNode& node, std::string_view path) {
  std::string text = TRY(read_text(node, path, 128));
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
           c == '-' || c == '_' || c == '.';
  };
  if (text.empty()) return text;
  if (text.front() != '/' || text.back() == '/' || !std::ranges::all_of(text, fits))
    return wrong(node, path,
                 fmt::format("want a path as /api/v1, or nothing, found {}", in_quotes(text)));
  return text;
}

std::span<const DaivVariable> daiv_variables() noexcept { return kVariables; }

}  // namespace caisson::policy
