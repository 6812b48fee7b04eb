#include "engine/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>

namespace caisson::engine {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20U;

HostFeatures any_host() {
  HostFeatures host;
  host.kernel_release = "6.12.0";
  host.kernel = {6, 12};
  host.landlock_abi = 6;
  host.seccomp_filter = true;
  host.user_namespaces = true;
  host.overlay = true;
  host.cgroup_v2_root = "/sys/fs/cgroup";
  host.own_v2_group = "/sys/fs/cgroup/user.slice/box.scope";
  return host;
}

HostFeatures privileged_v2() {
  HostFeatures host = any_host();
  host.privileged = true;
  host.initial_user_namespace = true;
  host.v2_controllers = {"cpu", "memory", "pids", "io"};
  return host;
}

HostFeatures privileged_hybrid() {
  HostFeatures host = privileged_v2();
  host.v2_controllers.clear();
  host.cgroup_v2_root = "/sys/fs/cgroup/unified";
  for (const char* name : {"cpu", "memory", "pids"})
    host.cgroup_v1[name] = std::string("/sys/fs/cgroup/") + name;
  return host;
}

HostFeatures rootless() {
  HostFeatures host = any_host();
  host.euid = 1000;
  return host;
}

HostFeatures delegated() {
  HostFeatures host = rootless();
  host.own_v2_delegated = true;
  host.v2_controllers = {"cpu", "memory", "pids"};
  return host;
}

SandboxSpec spec() {
  SandboxSpec made = default_spec();
  made.request.id = "abcdefghijklmnopqrstuvwxyz";
  made.request.limits.cpu_time_us = 30'000'000;
  made.request.limits.cpu_millis = 500;
  return made;
}

std::string how(const Plan& plan, std::string_view what) {
  for (const auto& [name, text] : plan.mechanisms) {
    if (name == what) return text;
  }
  return "";
}

bool has_note(const Plan& plan, std::string_view begin) {
  return std::ranges::any_of(plan.notes,
                             [&](const std::string& note) { return note.starts_with(begin); });
}

Plan planned(const SandboxSpec& wanted, const HostFeatures& host) {
  auto made = plan(wanted, host);
  EXPECT_TRUE(made) << made.error().message;
  return made ? std::move(*made) : Plan{};
}

std::string refusal_of(const SandboxSpec& wanted, const HostFeatures& host) {
  const auto made = plan(wanted, host);
  EXPECT_FALSE(made);
  if (made) return "";
  EXPECT_EQ(made.error().code, Errc::Unsupported) << made.error().message;
  return made.error().message;
}

// Each missing wall is refused by its name, whether or not we are root.
TEST(Plan, AMissingWallIsNamed) {
  struct Case {
    void (*remove)(HostFeatures&);
    const char* name;
  };
  const Case cases[] = {
      {[](HostFeatures& host) { host.kernel = {5, 18}; }, "Linux 5.19"},
      {[](HostFeatures& host) { host.kernel = {}; }, "Linux 5.19"},
      {[](HostFeatures& host) { host.user_namespaces = false; }, "user namespaces"},
      {[](HostFeatures& host) { host.seccomp_filter = false; }, "seccomp"},
      {[](HostFeatures& host) { host.landlock_abi = 0; }, "Landlock"},
      {[](HostFeatures& host) { host.overlay = false; }, "overlay"},
  };
  for (const Case& one : cases) {
    for (HostFeatures host : {privileged_v2(), privileged_hybrid(), rootless(), delegated()}) {
      one.remove(host);
      EXPECT_NE(refusal_of(spec(), host).find(one.name), std::string::npos) << one.name;
    }
  }
}

TEST(Plan, RootWithoutTheUnifiedHierarchyIsRefused) {
  HostFeatures host = privileged_hybrid();
  host.cgroup_v2_root.clear();
  EXPECT_NE(refusal_of(spec(), host).find("cgroup2"), std::string::npos);
}

TEST(Plan, OtherTiersAreRefusedByName) {
  SandboxSpec wanted = spec();
  wanted.tier = policy::SandboxTier::Gvisor;
  EXPECT_NE(refusal_of(wanted, privileged_v2()).find("'gvisor' needs runsc"), std::string::npos);
  HostFeatures host = privileged_v2();
  host.runsc = "/usr/bin/runsc";
  const auto planned = plan(wanted, host);
  ASSERT_TRUE(planned) << planned.error().message;
  EXPECT_EQ(planned->request.tier, policy::SandboxTier::Gvisor);
  EXPECT_EQ(tiers_of(host), (std::vector<std::string>{"native", "gvisor"}));
  wanted.tier = policy::SandboxTier::Microvm;
  EXPECT_NE(refusal_of(wanted, host).find("'microvm' needs QEMU"), std::string::npos);
  host.qemu = "/usr/bin/qemu-system-x86_64";
  const auto machine = plan(wanted, host);
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->request.tier, policy::SandboxTier::Microvm);
  // Without a kernel to boot there is none to offer.
  EXPECT_EQ(tiers_of(host), (std::vector<std::string>{"native", "gvisor"}));
  EXPECT_EQ(tiers_of(host, true), (std::vector<std::string>{"native", "gvisor", "microvm"}));
}

TEST(Plan, AGateIsOpenedForRulesAndForNothingElse) {
  SandboxSpec wanted = spec();
  EXPECT_FALSE(planned(wanted, privileged_v2()).request.gate);
  wanted.egress.emplace_back().domain = "api.example.com";
  wanted.egress.back().ports = {5432, 443};
  const Plan made = planned(wanted, privileged_v2());
  EXPECT_TRUE(made.request.gate);
  EXPECT_EQ(made.request.gate_ports, (std::vector<std::uint16_t>{443, 5432}));
  EXPECT_NE(to_text(made).find("the gate on it: 1 rule"), std::string::npos);
}

// Without steering each port has a listener, and there are not 65535 of them.
TEST(Plan, ARuleForEveryPortIsNotedWhereNothingSteers) {
  SandboxSpec wanted = spec();
  wanted.egress.emplace_back().domain = "example.com";
  const Plan made = planned(wanted, rootless());
  EXPECT_EQ(made.request.gate_ports, (std::vector<std::uint16_t>{22, 80, 443}));
  const auto told = [](const Plan& plan) {
    return std::ranges::any_of(plan.notes, [](const std::string& note) {
      return note.find("reach only the ports 22, 80, 443") != std::string::npos;
    });
  };
  EXPECT_TRUE(told(made));
  EXPECT_FALSE(told(planned(wanted, privileged_v2())));
}

TEST(Plan, ARequestThatTheLauncherWouldRefuseIsRefusedHere) {
  SandboxSpec wanted = spec();
  wanted.request.folders.push_back({"/proc", FolderMode::Writable});
  EXPECT_EQ(plan(wanted, privileged_v2()).error().code, Errc::InvalidArgument);
  wanted = spec();
  wanted.request.uid = 65535;
  EXPECT_EQ(plan(wanted, rootless()).error().code, Errc::InvalidArgument);
}

TEST(Plan, RootOnV2HoldsEverything) {
  const SandboxSpec wanted = spec();
  const Plan made = planned(wanted, privileged_v2());
  EXPECT_EQ(made.request, wanted.request);
  EXPECT_TRUE(made.notes.empty());
  EXPECT_EQ(how(made, "tier"), "native");
  EXPECT_EQ(how(made, "groups"), "v2 /sys/fs/cgroup");
  EXPECT_EQ(how(made, "memory"), "536870912 bytes, no swap: v2 memory");
  EXPECT_EQ(how(made, "processes"), "1024: v2 pids");
  EXPECT_EQ(how(made, "cpus"), "0.500 cores: v2 cpu");
  EXPECT_EQ(how(made, "cpu_seconds"), "30.000 s of the whole tree: v2 cpu.stat");
  EXPECT_EQ(how(made, "network"), "own namespace, nothing but lo");
  EXPECT_EQ(how(made, "landlock"), "ABI 6");
  EXPECT_TRUE(how(made, "ids").starts_with("a slot"));
}

TEST(Plan, RootOnAHybridHostLimitsByV1) {
  const Plan made = planned(spec(), privileged_hybrid());
  EXPECT_TRUE(made.notes.empty());
  EXPECT_EQ(how(made, "groups"), "v2 /sys/fs/cgroup/unified");
  EXPECT_TRUE(how(made, "memory").ends_with("v1 memory"));
  EXPECT_TRUE(how(made, "processes").ends_with("v1 pids"));
  EXPECT_TRUE(how(made, "cpus").ends_with("v1 cpu"));
}

TEST(Plan, RootlessWithoutAGroupLeavesDefaultsOutAndSaysSo) {
  const Plan made = planned(spec(), rootless());
  EXPECT_EQ(made.request.limits.memory_bytes, 0U);
  EXPECT_EQ(made.request.limits.cpu_millis, 0U);
  EXPECT_EQ(made.request.limits.cpu_time_us, 0U);
  EXPECT_EQ(made.request.limits.processes, kProcessesDefault);
  EXPECT_EQ(made.request.limits.disk_bytes, 256 * kMiB);
  EXPECT_TRUE(has_note(made, "memory is not limited"));
  EXPECT_TRUE(has_note(made, "cpus is not limited"));
  EXPECT_TRUE(has_note(made, "cpu_seconds is not limited"));
  EXPECT_TRUE(has_note(made, "no control group"));
  EXPECT_TRUE(has_note(made, "rootless without sub-ids"));
  EXPECT_EQ(how(made, "memory"), "");
  EXPECT_TRUE(how(made, "processes").ends_with("RLIMIT_NPROC of the user namespace"));
  EXPECT_EQ(how(made, "ids"), "one: your own");
}

TEST(Plan, ADeclaredLimitThatCannotHoldIsRefusedWithItsRemedy) {
  SandboxSpec wanted = spec();
  wanted.declared = {.memory = true, .cpu = false, .cpu_time = false, .root_capabilities = false};
  std::string why = refusal_of(wanted, rootless());
  EXPECT_TRUE(why.starts_with("memory: cannot be enforced here")) << why;
  EXPECT_NE(why.find("Delegate=yes"), std::string::npos) << why;
  wanted.declared = {.memory = false, .cpu = true, .cpu_time = false, .root_capabilities = false};
  EXPECT_TRUE(refusal_of(wanted, rootless()).starts_with("cpus: "));
  wanted.declared = {.memory = false, .cpu = false, .cpu_time = true, .root_capabilities = false};
  EXPECT_TRUE(refusal_of(wanted, rootless()).starts_with("cpu_seconds: "));
  // Somebody who said "unlimited" wants no limit, and gets none.
  wanted.declared = {.memory = true, .cpu = true, .cpu_time = true, .root_capabilities = false};
  wanted.request.limits.memory_bytes = 0;
  wanted.request.limits.cpu_millis = 0;
  wanted.request.limits.cpu_time_us = 0;
  EXPECT_TRUE(plan(wanted, rootless()));
}

TEST(Plan, RootHasPowerOverASlotOfIdsAndNothingElse) {
  SandboxSpec wanted = spec();
  wanted.request.uid = 0;
  wanted.request.root_capabilities = true;
  EXPECT_TRUE(planned(wanted, privileged_v2()).request.root_capabilities);
  EXPECT_NE(how(planned(wanted, privileged_v2()), "capabilities"), "");
  const Plan weaker = planned(wanted, rootless());
  EXPECT_FALSE(weaker.request.root_capabilities);
  EXPECT_TRUE(has_note(weaker, "root inside has no capability"));
  wanted.declared.root_capabilities = true;
  EXPECT_TRUE(refusal_of(wanted, rootless()).starts_with("root_capabilities: "));
}

// Another's v1 files are out of an ordinary user's reach.
TEST(Plan, V1IsNoHelpWithoutRoot) {
  HostFeatures host = rootless();
  host.own_v2_delegated = true;
  host.cgroup_v1["memory"] = "/sys/fs/cgroup/memory";
  SandboxSpec wanted = spec();
  wanted.declared.memory = true;
  EXPECT_TRUE(refusal_of(wanted, host).starts_with("memory: "));
  wanted.declared = {.memory = false, .cpu = false, .cpu_time = true, .root_capabilities = false};
  const Plan made = planned(wanted, host);
  EXPECT_EQ(made.request.limits.cpu_time_us, 30'000'000U);
  EXPECT_EQ(made.request.limits.memory_bytes, 0U);
}

// Controllers that are there but cannot be used, as the group is not ours, count for nothing.
TEST(Plan, ControllersInAGroupThatIsNotOursDoNotCount) {
  HostFeatures host = delegated();
  host.own_v2_delegated = false;
  SandboxSpec wanted = spec();
  wanted.declared.memory = true;
  EXPECT_TRUE(refusal_of(wanted, host).starts_with("memory: "));
}

TEST(Plan, ADelegatedGroupHoldsDeclaredLimits) {
  SandboxSpec wanted = spec();
  wanted.declared = {.memory = true, .cpu = true, .cpu_time = true, .root_capabilities = false};
  const Plan made = planned(wanted, delegated());
  EXPECT_EQ(made.request.limits, wanted.request.limits);
  EXPECT_EQ(how(made, "groups"), "v2, delegated: /sys/fs/cgroup/user.slice/box.scope");
  EXPECT_TRUE(how(made, "memory").ends_with("v2 memory"));
}

TEST(Plan, SubIdsAreNamedToTheLastOne) {
  HostFeatures host = rootless();
  host.sub_ids = SubIds{.uid = {100'000, 65'536}, .gid = {200'000, 65'536}};
  const Plan made = planned(spec(), host);
  EXPECT_NE(how(made, "ids").find("100000 to 165535"), std::string::npos) << how(made, "ids");
  EXPECT_TRUE(has_note(made, "rootless: the guest runs under your own id"));
  EXPECT_FALSE(has_note(made, "rootless without sub-ids"));
}

TEST(SpecOf, AnEmptyCapabilityWritesNothingAndStartsNothing) {
  const SandboxSpec made = spec_of({});
  EXPECT_EQ(made.request.root, RootMode::ReadOnly);
  EXPECT_EQ(made.request.scratch, ScratchMode::ReadOnly);
  EXPECT_EQ(made.request.workspace, WorkspaceMode::ReadOnly);
  EXPECT_EQ(made.request.uid, 1000U);
  EXPECT_EQ(made.request.profile, seccomp::Profile::NoSpawn);
  EXPECT_EQ(made.request.limits.memory_bytes, 512 * kMiB);
  EXPECT_EQ(made.request.limits.cpu_time_us, 30'000'000U);
  EXPECT_EQ(made.request.limits.disk_bytes, 256 * kMiB);
  EXPECT_TRUE(made.declared.memory && made.declared.cpu_time);
  EXPECT_TRUE(made.request.folders.empty() && made.request.writable.empty());
}

TEST(SpecOf, EachFilesystemMode) {
  policy::CapabilityDeclaration capability;
  capability.filesystem_config.mode = policy::FilesystemMode::ReadWrite;
  SandboxSpec made = spec_of(capability);
  EXPECT_EQ(made.request.root, RootMode::Writable);
  EXPECT_EQ(made.request.scratch, ScratchMode::Writable);
  EXPECT_EQ(made.request.workspace, WorkspaceMode::Writable);
  EXPECT_EQ(made.request.uid, 0U);
  capability.filesystem_config.writable_paths = {"/data"};
  made = spec_of(capability);
  EXPECT_EQ(made.request.root, RootMode::ReadOnly);
  EXPECT_EQ(made.request.scratch, ScratchMode::ReadOnly);
  EXPECT_EQ(made.request.uid, 1000U);
  capability.filesystem_config.mode = policy::FilesystemMode::None;
  made = spec_of(capability);
  EXPECT_EQ(made.request.root, RootMode::ReadOnly);
  EXPECT_EQ(made.request.scratch, ScratchMode::ReadOnly);
  EXPECT_EQ(made.request.workspace, WorkspaceMode::ReadOnly);
}

TEST(SpecOf, ASmallLimitNeverBecomesNone) {
  policy::CapabilityDeclaration capability;
  capability.resource_limits.max_cpu_seconds = 1e-9;
  capability.resource_limits.max_memory_mb = 1;
  const SandboxSpec made = spec_of(capability);
  EXPECT_EQ(made.request.limits.cpu_time_us, 1U);
  EXPECT_EQ(made.request.limits.memory_bytes, kMiB);
  EXPECT_EQ(made.request.limits.disk_bytes, 4 * kMiB);
}

TEST(SpecOf, PermissionsTierAndRulesAreKept) {
  policy::CapabilityDeclaration capability;
  capability.permissions = {policy::Permission::SpawnSubprocess};
  capability.sandbox_tier = policy::SandboxTier::Gvisor;
  capability.network_egress_rules.emplace_back().domain = "example.com";
  const SandboxSpec made = spec_of(capability);
  EXPECT_EQ(made.request.profile, seccomp::Profile::Default);
  EXPECT_EQ(made.tier, policy::SandboxTier::Gvisor);
  EXPECT_EQ(made.egress, capability.network_egress_rules);
}

TEST(PlanText, SaysEveryMechanismRuleAndNote) {
  SandboxSpec wanted = spec();
  wanted.request.folders = {{"/home/u/project", FolderMode::PrivateCopy},
                            {"/data", FolderMode::Writable},
                            {"/ref", FolderMode::ReadOnly}};
  wanted.request.writable = {"/cache"};
  const std::string text = to_text(planned(wanted, rootless()));
  for (const char* line :
       {"tier         native\n", "root         host image, read-only\n",
        "scratch      /tmp, /run, /dev/shm: private, writable\n", "user         1000:1000\n",
        "folder       /home/u/project: private copy, changes are discarded\n",
        "folder       /data: the host's own, writable\n", "folder       /ref: read-only\n",
        "writable     /cache: private\n", "landlock     read /\n", "landlock     device /dev\n",
        "landlock     write /tmp\n", "landlock     write /data\n", "landlock     write /cache\n",
        "note         memory is not limited: that needs the memory controller\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "is not in\n" << text;
  }
  EXPECT_EQ(text.find("landlock     write /ref"), std::string::npos);
}

TEST(PlanJson, IsJsonWhateverTheFoldersAreCalled) {
  SandboxSpec wanted = spec();
  wanted.request.folders = {{"/a\"b\\c'\xe2\x80\xae<x>", FolderMode::ReadOnly}};
  const Plan made = planned(wanted, rootless());
  const boost::json::value json = boost::json::parse(to_json(made));
  EXPECT_EQ(json.at("id").as_string(), wanted.request.id);
  EXPECT_EQ(json.at("mechanisms").as_array().size(), made.mechanisms.size());
  EXPECT_EQ(json.at("notes").as_array().size(), made.notes.size());
  EXPECT_EQ(json.at("mechanisms").at(0).at("what").as_string(), "tier");
}

}  // namespace
}  // namespace caisson::engine
