// The authority that a sandbox trusts, and what rules it can have later. The gate itself has its
// own tests.
#include <gtest/gtest.h>

#include "control/fleet_files_fixture_test.h"
#include "control/records.h"
#include "control/vault.h"
#include "sys/temp_dir_test.h"

namespace caisson::control {
namespace {

using test::FleetFiles;

policy::NetworkEgressRule looked_into(std::string domain) {
  policy::NetworkEgressRule rule{std::move(domain), {}};
  rule.inspect = true;
  rule.every_name = rule.domain == policy::kEveryName;
  return rule;
}

class FleetNetwork : public FleetFiles {
 protected:
  FleetNetwork() {
    const std::string at = secrets_.path();
    auto vault = Vault::open(
        {at + "/secrets", at + "/secrets.key", at + "/authorities.key", at + "/tokens.key"});
    EXPECT_TRUE(vault) << vault.error().message;
    if (vault) options_.vault = *std::move(vault);
    caller_ = me_;
    caller_.scopes = static_cast<std::uint8_t>(store::Scope::Create) |
                     static_cast<std::uint8_t>(store::Scope::Use);
  }
  static CreateWish wish_for(EgressRules rules, bool every_name) {
    CreateWish wish;
    wish.network.mode = "allowlist";
    wish.network.rules = std::move(rules);
    wish.network.authority_for_every_name = every_name;
    return wish;
  }
  std::string made(CreateWish wish) {
    const auto view = run(fleet_->create(caller_, std::move(wish)));
    EXPECT_TRUE(view) << view.error().message;
    return view ? view->id : "";
  }
  Result<SandboxView> change(const std::string& id, policy::NetworkEgressRule rule,
                             std::vector<std::string> own_secrets = {}) {
    NetworkWish wish;
    wish.mode = "allowlist";
    wish.rules = EgressRules{std::move(rule)};
    wish.own_secrets = std::move(own_secrets);
    return run(fleet_->set_network(caller_, id, std::move(wish)));
  }

  const sys::TempDir secrets_;
  Caller caller_;
};

TEST_F(FleetNetwork, AnAuthorityIsAsNarrowAsTheRulesOfTheCreation) {
  open();
  const std::string none = made(wish_for({{"a.example", {}}}, false));
  EXPECT_EQ(world_.requests.back().trust, "") << "nobody is trusted without need";
  EXPECT_EQ(change(none, looked_into("a.example")).error().code, Errc::Unsupported);
  const std::string narrow = made(wish_for({looked_into("a.example")}, false));
  EXPECT_NE(world_.requests.back().trust, "");
  EXPECT_EQ(change(narrow, looked_into("b.example")).error().field, "network.rules[0].inspect");
  EXPECT_EQ(change(narrow, looked_into("*")).error().field, "network.rules[0].inspect");
  EXPECT_TRUE(change(narrow, looked_into("a.example")));
}

TEST_F(FleetNetwork, AnAuthorityForEveryNameTakesRulesThatNobodyKnewYet) {
  open();
  const std::string id = made(wish_for({{"a.example", {}}}, true));
  const std::string mine = world_.requests.back().trust;
  EXPECT_NE(mine, "");
  for (const char* domain : {"b.example", "*.c.example", "*"}) {
    const auto changed = change(id, looked_into(domain));
    EXPECT_TRUE(changed) << changed.error().message;
  }
  // A rule says the same by itself.
  const std::string other = made(wish_for({looked_into("*"), looked_into("a.example")}, false));
  EXPECT_NE(world_.requests.back().trust, mine) << "each sandbox has its own";
  EXPECT_TRUE(change(other, looked_into("b.example")));
}

TEST_F(FleetNetwork, AStoppedSandboxKeepsItsAuthority) {
  open();
  CreateWish wish = wish_for({{"a.example", {}}}, true);
  wish.persistent = true;
  const std::string id = made(std::move(wish));
  const std::string mine = world_.requests.back().trust;
  ASSERT_TRUE(run(fleet_->stop_sandbox(caller_, id)));
  again();
  const auto changed = change(id, looked_into("later.example"));
  ASSERT_TRUE(changed) << changed.error().message;
  const auto started = run(fleet_->start_sandbox(caller_, id));
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_EQ(world_.requests.back().trust, mine);
}

// A caller who is no administrator adds what a door keeps for him, and nothing else.
TEST_F(FleetNetwork, ACallerSpendsWhatIsHis) {
  open();
  const std::string id = made(wish_for({{"a.example", {}}}, true));
  auto rule = looked_into("a.example");
  rule.inject = {{"X-Key", "mine-0", ""}};
  EXPECT_EQ(change(id, rule).error().code, Errc::Denied);
  EXPECT_EQ(change(id, rule, {"mine-1"}).error().code, Errc::Denied);
  EXPECT_TRUE(change(id, rule, {"mine-0"}));
  EXPECT_EQ(change(id, rule).error().code, Errc::Denied) << "the word was for that wish";
}

// What was accepted and is not there inside would be less than was promised, and could not be
// woken.
TEST_F(FleetNetwork, TheWayOutBehindAnotherKernelHasThePortsOfItsCreation) {
  options_.host->qemu = "/usr/bin/qemu";
  options_.host->runsc = "/usr/bin/runsc";
  open();
  for (const char* tier : {"gvisor", "microvm"}) {
    SCOPED_TRACE(tier);
    policy::NetworkEgressRule rule{"a.test", {}};
    rule.ports = {80, 8080};
    CreateWish wish = wish_for({rule}, false);
    wish.tier = tier;
    const std::string id = made(wish);
    rule.domain = "b.test";
    rule.ports = {8080};
    const auto other = change(id, rule);
    ASSERT_TRUE(other) << other.error().message;
    rule.ports = {80, 443};
    const auto refused = change(id, rule);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::Unsupported);
    EXPECT_EQ(refused.error().field, "network.rules");
    EXPECT_NE(refused.error().message.find("none but these (80, 8080)"), std::string::npos);
    CreateWish closed;
    closed.tier = tier;
    EXPECT_EQ(change(made(closed), rule).error().code, Errc::Unsupported);
    // Whoever must be cut off is, and its init listens on.
    EXPECT_TRUE(run(fleet_->set_network(caller_, id, {})));
    if (tier == std::string_view("microvm")) {
      ASSERT_TRUE(run(fleet_->hibernate(caller_, id)));
      const auto woken = run(fleet_->resume(caller_, id));
      ASSERT_TRUE(woken) << woken.error().message;
      EXPECT_TRUE(world_.requests.back().gate);
      EXPECT_EQ(world_.requests.back().gate_ports, (std::vector<std::uint16_t>{80, 8080}));
    } else {
      EXPECT_EQ(run(fleet_->hibernate(caller_, id)).error().code, Errc::Unsupported);
    }
  }
}

}  // namespace
}  // namespace caisson::control
