#include "policy/environment.h"

#include <algorithm>
#include <array>

#include "policy/wording.h"

namespace caisson::policy {

namespace {

constexpr std::array<std::string_view, 5> kSecretEndings = {"_key", "_secret", "_token",
                                                            "_password", "_credential"};
constexpr std::array<std::string_view, 5> kSecretBeginnings = {"aws_", "azure_", "gcp_", "openai_",
                                                               "anthropic_"};

bool passes(std::string_view entry, const CapabilityDeclaration& capability) {
  if (entry.find('\0') != std::string_view::npos) return false;  // execve would cut it short
  const std::size_t equals = entry.find('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  const std::string_view name = entry.substr(0, equals);
  if (is_secret_name(name)) return false;
  const auto& allowlist = capability.env_allowlist;
  return !allowlist || std::ranges::find(*allowlist, name) != allowlist->end();
}

}  // namespace

bool is_secret_name(std::string_view name) {
  const std::string lowered = lower(name);
  const auto ends = [&](std::string_view part) { return lowered.ends_with(part); };
  const auto begins = [&](std::string_view part) { return lowered.starts_with(part); };
  return std::ranges::any_of(kSecretEndings, ends) ||
         std::ranges::any_of(kSecretBeginnings, begins);
}

std::vector<std::string> filter_environment(const std::vector<std::string>& host_env,
                                            const CapabilityDeclaration& capability) {
  std::vector<std::string> out;
  if (!capability.has(Permission::ReadEnv)) return out;
  for (const std::string& entry : host_env) {
    if (passes(entry, capability)) out.push_back(entry);
  }
  return out;
}

}  // namespace caisson::policy
