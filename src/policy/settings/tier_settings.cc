#include "policy/settings/tier_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "policy/settings/setting_value.h"
#include "policy/wording.h"

namespace caisson::policy {
namespace {

using namespace setting;  // NOLINT(google-build-using-namespace): the words of this file

constexpr std::array<std::string_view, 3> kTiers = {"native", "gvisor", "microvm"};
constexpr std::size_t kRuleNameBytesMax = 255;

}  // namespace

std::string_view tier_word(SandboxTier tier) noexcept {
  return kTiers[static_cast<std::size_t>(tier)];
}

Result<SandboxTier> read_tier(const YamlNode& node, std::string_view path) {
  return static_cast<SandboxTier>(TRY(read_word(node, path, kTiers)));
}

Result<TierRules> read_tier_rules(const YamlNode& node, std::string_view path) {
  TierRules rules;
  if (node.at.line == 0) return wrong(node, path, "is read from the configuration file only");
  if (node.kind == YamlNode::Kind::Null) return rules;
  if (node.kind != YamlNode::Kind::Mapping) return wrong_type(node, path, "a mapping");
  if (node.keys.size() > kTierRulesMax)
    return wrong(node, path,
                 fmt::format("has {} rules: want at most {}", node.keys.size(), kTierRulesMax));
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const std::string& name = node.keys[i].name;
    YamlNode at;
    at.at = node.keys[i].at;
    if (name.empty() || name.size() > kRuleNameBytesMax || std::ranges::any_of(name, is_control))
      return wrong(at, path,
                   fmt::format("{} is no name: want 1 to {} bytes, no control characters",
                               in_quotes(name), kRuleNameBytesMax));
    rules[name] = TRY(read_tier(node.items[i], fmt::format("{}.{}", path, printable(name))));
  }
  return rules;
}

std::string print_tier_rules(const TierRules& rules) {
  if (rules.empty()) return "{}";
  std::string out;
  for (const auto& [name, tier] : rules)
    out += fmt::format("\n    {}: {}", print_text(name), tier_word(tier));
  return out;
}

}  // namespace caisson::policy
