// The checks every declaration passes, whether it came as YAML or was built by hand.
#include <fmt/format.h>

#include <cmath>

#include "policy/capability.h"
#include "policy/lexical_path.h"
#include "policy/rule_checks.h"
#include "policy/wording.h"

namespace caisson::policy {

Result<std::int64_t> check_whole(std::int64_t value, std::int64_t min, std::int64_t max) {
  if (value >= min && value <= max) return value;
  return failure(Errc::InvalidArgument,
                 fmt::format("must be from {} to {}, found {}", min, max, value));
}

Result<double> check_fraction(double value, double max) {
  if (!std::isfinite(value)) {
    return failure(Errc::InvalidArgument, "must be a finite number, found " + decimal(value, 0));
  }
  if (value <= 0 || value > max) {
    return failure(Errc::InvalidArgument,
                   fmt::format("must be greater than 0 and at most {}, found {}", decimal(max, 0),
                               decimal(value, 1)));
  }
  if (value < kFractionMin) {
    return failure(Errc::InvalidArgument,
                   fmt::format("must be at least {}, found {}", kFractionMin, value));
  }
  return value;
}

Result<std::string> check_env_name(std::string_view name) {
  bool good = !name.empty() && name.size() <= kEnvNameBytesMax && !is_digit(name.front());
  for (const char c : name) good = good && (is_letter(c) || is_digit(c) || c == '_');
  if (good) return std::string(name);
  return failure(Errc::InvalidArgument,
                 fmt::format("{} is not the name of an environment variable: letters, digits and "
                             "_, not beginning with a digit, at most {} bytes",
                             in_quotes(name), kEnvNameBytesMax));
}

namespace {

Result<void> check_count(std::size_t count, std::size_t max) {
  if (count <= max) return {};
  return failure(Errc::InvalidArgument, fmt::format("has {} entries, at most {}", count, max));
}

Result<void> check_limits(const ResourceLimits& limits) {
  TRY_IN("max_memory_mb", check_whole(limits.max_memory_mb, 1, kMemoryMbMax));
  TRY_IN("max_cpu_seconds", check_fraction(limits.max_cpu_seconds, kCpuSecondsMax));
  TRY_IN("max_cost_usd", check_fraction(limits.max_cost_usd, kCostUsdMax));
  TRY_IN("max_tokens", check_whole(limits.max_tokens, 1, kTokensMax));
  return {};
}

}  // namespace

Result<CapabilityDeclaration> validate(CapabilityDeclaration capability) {
  auto& rules = capability.network_egress_rules;
  TRY_IN("network_egress_rules", check_count(rules.size(), kEgressRulesMax));
  for (std::size_t i = 0; i < rules.size(); ++i) {
    TRY_IN(fmt::format("network_egress_rules[{}]", i), check_rule(rules[i]));
  }
  auto& paths = capability.filesystem_config.writable_paths;
  TRY_IN("filesystem_config.writable_paths", check_count(paths.size(), kWritablePathsMax));
  for (std::string& path : paths) {
    path = TRY_IN("filesystem_config.writable_paths", clean_path(path));
  }
  TRY_IN("resource_limits", check_limits(capability.resource_limits));
  if (capability.env_allowlist) {
    TRY_IN("env_allowlist", check_count(capability.env_allowlist->size(), kEnvAllowlistMax));
    for (const std::string& name : *capability.env_allowlist) {
      TRY_IN("env_allowlist", check_env_name(name));
    }
  }
  return capability;
}

}  // namespace caisson::policy
