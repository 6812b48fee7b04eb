#include "control/minimum_tier.h"

#include <gtest/gtest.h>

namespace caisson::control {
namespace {

using policy::SandboxTier;

MinimumTiers rules() {
  MinimumTiers all;
  all.tenants["red"] = SandboxTier::Gvisor;
  all.images["ghcr.io/strange/*"] = SandboxTier::Microvm;
  all.images["host"] = SandboxTier::Native;
  all.profiles["open"] = SandboxTier::Gvisor;
  return all;
}

TEST(MinimumTier, TheStrongestOfAllThatFitCounts) {
  const MinimumTiers all = rules();
  EXPECT_EQ(minimum_of(all, "blue", "host", "").tier, SandboxTier::Native);
  EXPECT_EQ(minimum_of(all, "red", "host", "").tier, SandboxTier::Gvisor);
  EXPECT_EQ(minimum_of(all, "blue", "host", "open").tier, SandboxTier::Gvisor);
  EXPECT_EQ(minimum_of(all, "red", "ghcr.io/strange/thing:1", "open").tier, SandboxTier::Microvm);
  EXPECT_EQ(minimum_of(all, "blue", "ghcr.io/strangers/x", "").tier, SandboxTier::Native);
  MinimumTiers everybody;
  everybody.everybody = SandboxTier::Gvisor;
  everybody.tenants["red"] = SandboxTier::Native;  // nobody is let out of it
  EXPECT_EQ(minimum_of(everybody, "red", "host", "").tier, SandboxTier::Gvisor);
}

TEST(MinimumTier, ARefusalNamesTheSettingAndTheRemedy) {
  const MinimumTiers all = rules();
  const Minimum least = minimum_of(all, "blue", "ghcr.io/strange/thing:1", "");
  EXPECT_TRUE(check_minimum(least, SandboxTier::Microvm, ""));
  const auto refused = check_minimum(least, SandboxTier::Gvisor, "name that tier");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Denied);
  EXPECT_EQ(refused.error().field, "tier");
  EXPECT_EQ(refused.error().message,
            "tier is 'gvisor': this server wants at least 'microvm' here (tiers.images "
            "'ghcr.io/strange/*'); name that tier");
}

}  // namespace
}  // namespace caisson::control
