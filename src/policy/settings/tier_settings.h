// policy/settings/tier_settings.h — the weakest tier that a sandbox may have, and for whom.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/capability.h"
#include "policy/yaml_tree.h"

namespace caisson::policy {

inline constexpr std::size_t kTierRulesMax = 1'000;

using TierRules = std::map<std::string, SandboxTier, std::less<>>;

// Of all that fit a sandbox the strongest counts; a profile has one of its own.
struct TierSettings {
  SandboxTier minimum = SandboxTier::Native;  // of every sandbox
  bool raise = false;  // a create that names no tier, or a weaker one, gets it; else it is refused
  TierRules tenants;
  TierRules images;  // by reference; one that ends with '*' stands for all that begin so

  friend bool operator==(const TierSettings&, const TierSettings&) = default;
};

// "native", "gvisor", "microvm": the words of this server.
[[nodiscard]] std::string_view tier_word(SandboxTier tier) noexcept;

[[nodiscard]] Result<SandboxTier> read_tier(const YamlNode& node, std::string_view path);
// Only in a file: a name may hold anything that a variable of the environment could not.
[[nodiscard]] Result<TierRules> read_tier_rules(const YamlNode& node, std::string_view path);
[[nodiscard]] std::string print_tier_rules(const TierRules& rules);

}  // namespace caisson::policy
