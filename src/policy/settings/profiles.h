// policy/settings/profiles.h — named sets of defaults that a client asks for by name.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/settings/settings.h"
#include "policy/yaml_tree.h"

namespace caisson::policy {

using Profiles = std::map<std::string, ProfileSettings>;

[[nodiscard]] Result<Profiles> read_profiles(const YamlNode& node, std::string_view path);
// As a YAML value: "{}", or lines that begin with a newline.
[[nodiscard]] std::string print_profiles(const Profiles& profiles);

// The limits that a profile and the sandbox section share.
[[nodiscard]] Result<double> read_cpu(const YamlNode& node, std::string_view path);
[[nodiscard]] Result<std::int64_t> read_megabytes(const YamlNode& node, std::string_view path);
[[nodiscard]] Result<std::int64_t> read_processes(const YamlNode& node, std::string_view path);
[[nodiscard]] Result<double> read_life(const YamlNode& node, std::string_view path);

}  // namespace caisson::policy
