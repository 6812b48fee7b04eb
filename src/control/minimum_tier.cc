#include "control/minimum_tier.h"

#include <fmt/format.h>

#include "engine/launch_request.h"

namespace caisson::control {
namespace {

bool stands_for(std::string_view rule, std::string_view image) {
  if (rule.ends_with('*')) return image.starts_with(rule.substr(0, rule.size() - 1));
  return rule == image;
}

}  // namespace

Minimum minimum_of(const MinimumTiers& all, std::string_view tenant, std::string_view image,
                   std::string_view profile) {
  Minimum out{all.everybody, "tiers.minimum"};
  const auto raise = [&out](policy::SandboxTier tier, std::string said_by) {
    if (tier > out.tier) out = {tier, std::move(said_by)};
  };
  if (const auto at = all.tenants.find(tenant); at != all.tenants.end())
    raise(at->second, "tiers.tenants");
  for (const auto& [rule, tier] : all.images) {
    if (stands_for(rule, image)) raise(tier, fmt::format("tiers.images '{}'", rule));
  }
  if (const auto at = all.profiles.find(profile); at != all.profiles.end())
    raise(at->second, fmt::format("profiles.{}.minimum_tier", profile));
  return out;
}

Result<void> check_minimum(const Minimum& minimum, policy::SandboxTier tier,
                           std::string_view remedy) {
  if (tier >= minimum.tier) return {};
  return std::unexpected(
      Error{Errc::Denied,
            fmt::format("tier is '{}': this server wants at least '{}' here ({}); {}",
                        engine::tier_name(tier), engine::tier_name(minimum.tier), minimum.said_by,
                        remedy),
            0, "tier"});
}

}  // namespace caisson::control
