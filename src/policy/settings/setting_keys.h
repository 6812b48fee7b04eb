// policy/settings/setting_keys.h — the one table of what can be configured: its name, how it is
// read, how it is printed, and whether a running server takes it over. The file, the environment,
// the flags, the printed form and the difference all walk it, so none of them can forget a setting.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/settings/settings.h"
#include "policy/yaml_tree.h"

namespace caisson::policy {

enum class Reload : std::uint8_t { Live, Restart };

struct SettingKey {
  std::string_view path;  // "sandbox.resource_limits.cpu"
  Reload reload;
  char separator;  // of a list in the environment; NUL for what is no list
  Result<void> (*read)(const YamlNode& node, std::string_view path, Settings& out);
  // As a YAML value. None for a second name of a setting that another row prints.
  std::string (*print)(const Settings& settings);
};

[[nodiscard]] std::span<const SettingKey> setting_keys() noexcept;
[[nodiscard]] const SettingKey* find_setting(std::string_view path) noexcept;

// Two names of one setting: giving both in a file would leave open which one counts.
struct SettingAlias {
  std::string_view name;
  std::string_view other;
};
[[nodiscard]] std::span<const SettingAlias> setting_aliases() noexcept;

}  // namespace caisson::policy
