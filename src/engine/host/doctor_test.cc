#include "engine/host/doctor.h"

#include <gtest/gtest.h>
#include <linux/capability.h>

#include <algorithm>
#include <cerrno>

namespace caisson::engine {
namespace {

ExaminedHost good_root_host() {
  ExaminedHost host;
  host.features.kernel_release = "6.18.0";
  host.features.kernel = {6, 18};
  host.features.capabilities = ~0ULL;
  host.features.initial_user_namespace = true;
  host.features.privileged = true;
  host.features.landlock_abi = 7;
  host.features.seccomp_filter = true;
  host.features.user_namespaces = true;
  host.features.overlay = true;
  host.features.cgroup_v2_root = "/sys/fs/cgroup";
  host.features.v2_controllers = {"cpu", "io", "memory", "pids"};
  host.features.swap_accounting = true;
  host.trials = {.namespaces = 0,
                 .user_namespace = 0,
                 .overlay_mount = 0,
                 .v2_group = 0,
                 .v2_freeze = 0,
                 .v2_kill = 0};
  host.tools = {{"runsc", "/usr/bin/runsc"}, {"qemu-system-x86_64", "/usr/bin/qemu-system-x86_64"}};
  host.kvm = 0;
  host.loop_devices = 0;
  host.btrfs = true;
  host.max_user_namespaces = "1000";
  host.open_files_max = 20'000;
  return host;
}

ExaminedHost good_user_host() {
  ExaminedHost host = good_root_host();
  host.features.euid = 1000;
  host.features.capabilities = 0;
  host.features.privileged = false;
  host.features.own_v2_group = "/sys/fs/cgroup/user.slice/a.scope";
  host.features.own_v2_delegated = true;
  host.features.sub_ids = SubIds{{100'000, 65'536}, {100'000, 65'536}};
  host.tools["newuidmap"] = "/usr/bin/newuidmap";
  host.tools["newgidmap"] = "/usr/bin/newgidmap";
  return host;
}

Check find(const std::vector<Check>& checks, std::string_view name) {
  const auto found = std::ranges::find(checks, name, &Check::name);
  EXPECT_NE(found, checks.end()) << name;
  return found == checks.end() ? Check{} : *found;
}

// Takes one thing away: the named check must notice, have a remedy, and the native tier must say
// no.
void expect_needed(const ExaminedHost& host, std::string_view name) {
  const auto checks = diagnose(host);
  const Check check = find(checks, name);
  EXPECT_EQ(check.health, Health::Missing) << name;
  EXPECT_FALSE(check.remedy.empty()) << name;
  EXPECT_FALSE(check.detail.empty()) << name;
  EXPECT_FALSE(can_run(checks, native_way(host))) << name;
}

TEST(Doctor, GoodHostsRun) {
  const auto root = diagnose(good_root_host());
  for (const Way way : {Way::Native, Way::Gvisor, Way::MicroVm})
    EXPECT_TRUE(can_run(root, way)) << to_string(way);
  const auto user = diagnose(good_user_host());
  EXPECT_TRUE(can_run(user, Way::Rootless));
  EXPECT_FALSE(can_run(user, Way::Native));
  EXPECT_EQ(native_way(good_user_host()), Way::Rootless);
}

TEST(Doctor, NamesAreUniqueAndEveryLackHasARemedy) {
  const auto checks = diagnose(ExaminedHost{});
  for (const Check& check : checks) {
    EXPECT_EQ(std::ranges::count(checks, check.name, &Check::name), 1) << check.name;
    EXPECT_FALSE(check.purpose.empty()) << check.name;
    EXPECT_NE(check.health, Health::Present) << check.name;
    EXPECT_FALSE(check.remedy.empty()) << check.name;
  }
  for (const Way way : kWays) EXPECT_FALSE(can_run(checks, way)) << to_string(way);
}

TEST(Doctor, EachMissingWallStopsTheNativeTier) {
  for (ExaminedHost host : {good_root_host(), good_user_host()}) {
    auto without = host;
    without.features.kernel = {5, 10};
    expect_needed(without, "kernel");
    without = host;
    without.trials.namespaces = EPERM;
    expect_needed(without, "namespaces");
    without = host;
    without.features.user_namespaces = false;
    expect_needed(without, "user namespaces");
    without = host;
    without.features.seccomp_filter = false;
    expect_needed(without, "seccomp");
    without = host;
    without.features.landlock_abi = 0;
    expect_needed(without, "Landlock");
    without = host;
    without.trials.overlay_mount = EINVAL;
    expect_needed(without, "overlay");
  }
}

// As root a sandbox is a group. Without root it is a pid namespace where no group can be had, and
// says so.
TEST(Doctor, GroupsAreNeededAsRootAndMissedWithoutIt) {
  const auto lacks = [](ExaminedHost host) {
    std::vector<ExaminedHost> all(3, host);
    all[0].features.cgroup_v2_root.clear();
    all[1].trials.v2_group = EACCES;
    all[2].trials.v2_kill = ENOENT;
    return all;
  };
  for (const ExaminedHost& host : lacks(good_root_host())) expect_needed(host, "cgroup v2");
  for (const ExaminedHost& host : lacks(good_user_host())) {
    const auto checks = diagnose(host);
    EXPECT_EQ(find(checks, "cgroup v2").health, Health::Degraded);
    EXPECT_FALSE(find(checks, "cgroup v2").remedy.empty());
    EXPECT_TRUE(can_run(checks, Way::Rootless));
  }
}

TEST(Doctor, RootNeedsItsCapabilitiesAndControllers) {
  ExaminedHost host = good_root_host();
  host.features.v2_controllers.clear();
  expect_needed(host, "memory limit");
  expect_needed(host, "pids limit");
  host.features.cgroup_v1 = {{"memory", "/m"}, {"pids", "/p"}};
  EXPECT_TRUE(can_run(diagnose(host), Way::Native));
  EXPECT_EQ(find(diagnose(host), "memory limit").detail, "cgroup v1");
  EXPECT_EQ(find(diagnose(host), "io limit").health, Health::Degraded);

  host = good_root_host();
  host.features.capabilities &= ~(1ULL << CAP_MKNOD);
  host.features.privileged = false;
  EXPECT_EQ(find(diagnose(host), "privileges").detail, "uid 0, without mknod");
}

TEST(Doctor, RootlessNeedsIdsAndSaysWhichPartIsMissing) {
  ExaminedHost host = good_user_host();
  host.features.sub_ids = SubIds{{100'000, 1000}, {100'000, 65'536}};
  expect_needed(host, "subordinate ids");
  host.features.sub_ids.reset();
  expect_needed(host, "subordinate ids");
  EXPECT_NE(find(diagnose(host), "subordinate ids").remedy.find("usermod"), std::string::npos);
  host.tools.erase("newuidmap");
  EXPECT_NE(find(diagnose(host), "subordinate ids").remedy.find("install"), std::string::npos);
  host.apparmor_restricts_userns = true;
  host.features.user_namespaces = false;
  EXPECT_NE(find(diagnose(host), "user namespaces").remedy.find("AppArmor"), std::string::npos);
}

TEST(Doctor, OldLandlockIsDegradedNotMissing) {
  ExaminedHost host = good_root_host();
  host.features.landlock_abi = 2;
  EXPECT_EQ(find(diagnose(host), "Landlock").health, Health::Degraded);
  EXPECT_TRUE(can_run(diagnose(host), Way::Native));
}

}  // namespace
}  // namespace caisson::engine
