// control/minimum_tier.h — the least that a sandbox must be kept apart, by whose it is and what it
// begins with. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/capability.h"

namespace caisson::control {

struct MinimumTiers {
  policy::SandboxTier everybody = policy::SandboxTier::Native;
  bool raise = false;  // a create below it gets it; else it is refused
  std::map<std::string, policy::SandboxTier, std::less<>> tenants;
  // By reference; one that ends with '*' stands for all that begin so.
  std::map<std::string, policy::SandboxTier, std::less<>> images;
  std::map<std::string, policy::SandboxTier, std::less<>> profiles;
};

// The strongest of all that fit, and which setting said it.
struct Minimum {
  policy::SandboxTier tier = policy::SandboxTier::Native;
  std::string said_by;
};
[[nodiscard]] Minimum minimum_of(const MinimumTiers& all, std::string_view tenant,
                                 std::string_view image, std::string_view profile);

// Denied, naming the setting and the remedy, when `tier` is weaker.
[[nodiscard]] Result<void> check_minimum(const Minimum& minimum, policy::SandboxTier tier,
                                         std::string_view remedy);

}  // namespace caisson::control
