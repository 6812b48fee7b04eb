#include "control/sandbox_spec.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "control/records.h"

namespace caisson::control {
namespace {

struct Refusal {
  Errc code;
  std::string field;
  friend bool operator==(const Refusal&, const Refusal&) = default;
};
std::ostream& operator<<(std::ostream& out, const Refusal& refusal) {
  return out << to_string(refusal.code) << " " << refusal.field;
}

Refusal refusal(const CreateWish& wish, const FleetOptions& options = {}) {
  const auto plan = plan_sandbox(wish, options);
  if (plan) return {Errc::Internal, "(accepted)"};
  return {plan.error().code, plan.error().field};
}

Refusal bad(std::string field) { return {Errc::InvalidArgument, std::move(field)}; }
template <class Change>
CreateWish wish(Change change) {
  CreateWish out;
  change(out);
  return out;
}

TEST(SandboxSpec, TheTierIsTheCallersOrTheProfiles) {
  FleetOptions options;
  options.profiles["strong"].tier = "microvm";
  const auto tier = [&](const CreateWish& one) { return plan_sandbox(one, options)->spec.tier; };
  EXPECT_EQ(tier({}), policy::SandboxTier::Native);
  EXPECT_EQ(tier(wish([](auto& w) { w.tier = "seccomp"; })), policy::SandboxTier::Native);
  EXPECT_EQ(tier(wish([](auto& w) { w.profile = "strong"; })), policy::SandboxTier::Microvm);
  EXPECT_EQ(tier(wish([](auto& w) {
              w.profile = "strong";
              w.tier = "gvisor";
            })),
            policy::SandboxTier::Gvisor);
  EXPECT_EQ(refusal(wish([](auto& w) { w.tier = "moon"; })),
            (Refusal{Errc::InvalidArgument, "tier"}));
}

TEST(SandboxSpec, TheNetworkIsTheCallersWordOrTheProfiles) {
  FleetOptions options;
  options.profiles["net"].network.domain_allowlist = {"pypi.org"};
  EXPECT_TRUE(plan_sandbox({}, options)->spec.egress.empty());
  const auto named = plan_sandbox(wish([](auto& w) { w.profile = "net"; }), options);
  ASSERT_TRUE(named) << named.error().message;
  ASSERT_EQ(named->spec.egress.size(), 1U);
  EXPECT_EQ(named->spec.egress[0].domain, "pypi.org");
  EXPECT_EQ(named->spec.egress[0].ports, (std::vector<std::uint16_t>{80, 443}));
  const auto none = plan_sandbox(wish([](auto& w) {
                                   w.profile = "net";
                                   w.network.mode = "none";
                                 }),
                                 options);
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->spec.egress.empty());
  const auto other = plan_sandbox(wish([](auto& w) {
                                    w.profile = "net";
                                    w.network.domain_allowlist = {"a.example"};
                                  }),
                                  options);
  ASSERT_TRUE(other);
  ASSERT_EQ(other->spec.egress.size(), 1U);
  EXPECT_EQ(other->spec.egress[0].domain, "a.example");
}

TEST(SandboxSpec, TheServersImageIsForWhoNamesNone) {
  FleetOptions options;
  options.image = "python:3";
  options.profiles["own"].image = "host";
  EXPECT_EQ(*image_of({}, options), "python:3");
  EXPECT_EQ(*image_of(wish([](auto& w) { w.image = "debian"; }), options), "debian");
  EXPECT_EQ(*image_of(wish([](auto& w) { w.profile = "own"; }), options), "host");
  EXPECT_EQ(image_of(wish([](auto& w) { w.profile = "none"; }), options).error().field, "profile");
}

TEST(SandboxSpec, TheRootOfAnImageHasItsCapabilities) {
  SandboxBase base;
  base.image = "redis";
  base.stack = {{"sha256-a"}, false};
  base.defaults = ImageDefaults{};
  const FleetOptions options;
  const auto capable = [&](const CreateWish& wanted, const SandboxBase& on) {
    const auto plan = plan_sandbox(wanted, options, Trust::Caller, on);
    EXPECT_TRUE(plan) << plan.error().message;
    return plan && plan->spec.request.root_capabilities;
  };
  const auto root = [](auto& w) { w.uid = 0; };
  EXPECT_TRUE(capable(wish(root), base));
  EXPECT_FALSE(capable(wish([](auto& w) { w.uid = 7; }), base));
  EXPECT_FALSE(capable(wish(root), {}));
  EXPECT_FALSE(capable(wish([](auto& w) { w.uid = 0, w.root_capabilities = false; }), base));
  EXPECT_TRUE(capable(wish([](auto& w) { w.uid = 0, w.root_capabilities = true; }), {}));
  EXPECT_EQ(refusal(wish([](auto& w) { w.root_capabilities = true; })), bad("root_capabilities"));
}

TEST(SandboxSpec, AnImagesDefaultsLieBelowWhatIsSaid) {
  SandboxBase base;
  base.image = "python";
  base.stack = {{"sha256-a"}, false};
  base.defaults = ImageDefaults{};
  base.defaults->uid = 7;
  base.defaults->gid = 8;
  base.defaults->workdir = "/app";
  base.defaults->environment = {"A=1", "B=2", "HOME=/home/seven"};
  const FleetOptions options;
  const auto plain = plan_sandbox({}, options, Trust::Caller, base);
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->spec.request.uid, 7U);
  EXPECT_EQ(plain->spec.request.gid, 8U);
  EXPECT_EQ(plain->spec.request.root, engine::RootMode::Writable);
  EXPECT_EQ(plain->workdir, "/app");
  EXPECT_TRUE(plain->make_workdir);
  const auto has = [](const SandboxPlan& plan, std::string_view text) {
    return std::ranges::find(plan.environment, text) != plan.environment.end();
  };
  EXPECT_TRUE(has(*plain, "A=1"));
  EXPECT_TRUE(has(*plain, "HOME=/home/seven"));
  const auto said = plan_sandbox(wish([](auto& w) {
                                   w.uid = 9;
                                   w.workdir = "/other";
                                   w.root = engine::RootMode::ReadOnly;
                                   w.environment = {{"A", "3"}};
                                 }),
                                 options, Trust::Caller, base);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->spec.request.gid, 9U);
  EXPECT_FALSE(said->make_workdir);
  EXPECT_TRUE(has(*said, "A=3"));
  EXPECT_FALSE(has(*said, "A=1"));
  EXPECT_FALSE(has(*said, "HOME=/home/seven"));  // another user's
  EXPECT_EQ(said->spec.request.root, engine::RootMode::ReadOnly);
  base.defaults->workdir = "/a/../../b";
  EXPECT_EQ(plan_sandbox({}, options, Trust::Caller, base).error().code, Errc::Denied);
}

TEST(SandboxSpec, WhatMustStayNeedsADisk) {
  const FleetOptions options;
  const auto stays = plan_sandbox(wish([](auto& w) { w.persistent = true; }), options);
  EXPECT_EQ(stays->spec.request.storage, engine::Storage::Disk);
  EXPECT_EQ(refusal(wish([](auto& w) {
              w.persistent = true;
              w.storage = engine::Storage::Memory;
            })),
            bad("storage"));
  EXPECT_EQ(refusal(wish([](auto& w) {
              w.checkpoint = Checkpoints::EachCall;
              w.storage = engine::Storage::Memory;
            })),
            bad("storage"));
  EXPECT_EQ(refusal(wish([](auto& w) { w.volumes = {{"data", "/proc", false}}; })),
            bad("volumes[0].at"));
}

TEST(SandboxSpec, BadInputNamesItsField) {
  EXPECT_EQ(refusal(wish([](auto& w) { w.profile = "none"; })), bad("profile"));
  EXPECT_EQ(refusal(wish([](auto& w) { w.name = "Bad Name"; })), bad("name"));
  EXPECT_EQ(refusal(wish([](auto& w) { w.name = std::string(64, 'a'); })), bad("name"));
  EXPECT_EQ(refusal(wish([](auto& w) { w.hostname = ""; })), bad("hostname"));
  EXPECT_EQ(refusal(wish([](auto& w) { w.network.mode = "all"; })), bad("network.mode"));
  EXPECT_EQ(refusal(wish([](auto& w) { w.tools = {"rm"}; })), bad("tools"));
  EXPECT_EQ(refusal(wish([](auto& w) { w.uid = 65535; })), bad("user"));
  EXPECT_EQ(refusal(wish([](auto& w) { w.workdir = "a\nb"; })), bad("workdir"));
  EXPECT_EQ(refusal(wish([](auto& w) { w.environment = {{"A=B", "c"}}; })), bad("env.A=B"));
  EXPECT_EQ(refusal(wish([](auto& w) { w.environment = {{"1A", "c"}}; })), bad("env.1A"));
  EXPECT_EQ(refusal(wish([](auto& w) { w.labels = {{"", "x"}}; })), bad("labels."));
  EXPECT_EQ(refusal(wish([](auto& w) { w.files = {{"/etc/passwd", "x"}}; })),
            (Refusal{Errc::Denied, "files./etc/passwd"}));
  EXPECT_EQ(refusal(wish([](auto& w) { w.files = {{".", "x"}}; })), bad("files.."));
}

TEST(SandboxSpec, FilesDoNotClimbOutOfTheWorkspace) {
  EXPECT_EQ(refusal(wish([](auto& w) { w.files = {{"../etc/passwd", "x"}}; })),
            (Refusal{Errc::Denied, "files.../etc/passwd"}));
}

TEST(SandboxSpec, LimitsHaveLimits) {
  const auto limits = [](auto change) { return refusal(wish([&](auto& w) { change(w.limits); })); };
  EXPECT_EQ(limits([](auto& l) { l.cpu = 0; }), bad("resource_limits.cpu"));
  EXPECT_EQ(limits([](auto& l) { l.cpu = NAN; }), bad("resource_limits.cpu"));
  EXPECT_EQ(limits([](auto& l) { l.memory_bytes = 1; }), bad("resource_limits.memory_mb"));
  EXPECT_EQ(limits([](auto& l) { l.processes = 0; }), bad("resource_limits.processes"));
  EXPECT_EQ(limits([](auto& l) { l.disk_bytes = 1; }), bad("resource_limits.disk_mb"));
  EXPECT_EQ(limits([](auto& l) { l.disk_files = 1; }), bad("resource_limits.disk_files"));
  EXPECT_EQ(limits([](auto& l) { l.open_files = 1; }), bad("resource_limits.open_files"));
  EXPECT_EQ(limits([](auto& l) { l.cpu_seconds = -1; }), bad("resource_limits.cpu_seconds"));
  EXPECT_EQ(limits([](auto& l) { l.timeout_seconds = 0; }), bad("resource_limits.timeout_seconds"));
  EXPECT_EQ(limits([](auto& l) { l.idle_seconds = 1e300; }), bad("resource_limits.idle_seconds"));
}

TEST(SandboxSpec, WhatAClientCanGrowHasALimit) {
  EXPECT_EQ(refusal(wish([](auto& w) {
              for (std::size_t i = 0; i <= kFilesMax; ++i) w.files.emplace_back("f", "");
            })),
            bad("files"));
  EXPECT_EQ(
      refusal(wish([](auto& w) { w.files = {{"f", std::string(kFileTextBytesMax + 1, 'x')}}; })),
      (Refusal{Errc::TooLarge, "files"}));
  EXPECT_EQ(refusal(wish([](auto& w) {
              for (std::size_t i = 0; i <= kEnvironmentMax; ++i)
                w.environment.emplace_back("A", "");
            })),
            bad("env"));
  EXPECT_EQ(refusal(wish(
                [](auto& w) { w.environment = {{"A", std::string(kEnvironmentBytesMax, 'x')}}; })),
            bad("env"));
  EXPECT_EQ(refusal(wish([](auto& w) {
              for (std::size_t i = 0; i <= kLabelsMax; ++i) w.labels[std::to_string(i)] = "";
            })),
            bad("labels"));
}

TEST(SandboxSpec, ThreeLayers) {
  FleetOptions options;
  CreateWish& profile = options.profiles["python"];
  profile.limits.memory_bytes = 1ULL << 30U;
  profile.limits.cpu = 2;
  profile.tools = {"shell_exec", "http_request"};
  profile.environment = {{"A", "profile"}, {"B", "profile"}};
  ASSERT_TRUE(check_options(options));
  const auto plan = plan_sandbox(wish([](auto& w) {
                                   w.profile = "python";
                                   w.limits.cpu = 0.5;
                                   w.environment = {{"A", "wish"}};
                                 }),
                                 options);
  ASSERT_TRUE(plan) << plan.error().message;
  const engine::Limits& limits = plan->spec.request.limits;
  EXPECT_EQ(limits.cpu_millis, 500U);
  EXPECT_EQ(limits.memory_bytes, 1ULL << 30U);
  EXPECT_EQ(limits.disk_bytes, 1ULL << 29U);
  EXPECT_EQ(limits.life_us, 600'000'000U);
  EXPECT_EQ(plan->tools, (std::vector<std::string>{"shell_exec", "http_request"}));
  EXPECT_TRUE(plan->spec.declared.memory);
  EXPECT_TRUE(plan->spec.declared.cpu);
  EXPECT_FALSE(plan->spec.declared.cpu_time);
  const auto has = [&](std::string_view text) {
    return std::ranges::find(plan->environment, text) != plan->environment.end();
  };
  EXPECT_TRUE(has("A=wish"));
  EXPECT_TRUE(has("B=profile"));
}

TEST(SandboxSpec, DefaultsAreSafe) {
  const auto plan = plan_sandbox({}, {});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->spec.request.uid, 65534U);
  EXPECT_EQ(plan->spec.request.root, engine::RootMode::ReadOnly);
  EXPECT_EQ(plan->spec.request.workspace, engine::WorkspaceMode::Writable);
  EXPECT_TRUE(plan->spec.request.id.empty());
  EXPECT_EQ(plan->workdir, "/workspace");
  EXPECT_EQ(plan->tools, all_tools());
  EXPECT_TRUE(plan->spec.egress.empty());
  EXPECT_FALSE(plan->spec.declared.memory);
}

TEST(SandboxSpec, AServerWithoutATimeToLiveGivesNone) {
  FleetOptions options;
  options.limits.timeout_seconds = 0;
  ASSERT_TRUE(check_options(options));
  EXPECT_EQ(plan_sandbox({}, options)->spec.request.limits.life_us, 0U);
}

TEST(SandboxSpec, OptionsAreJudgedAtTheStart) {
  FleetOptions options;
  options.tools = {"rm"};
  EXPECT_FALSE(check_options(options));
  options = {};
  options.profiles["p"].limits.cpu = -1;
  EXPECT_FALSE(check_options(options));
  options = {};
  options.exec_timeout_seconds = 7200;
  EXPECT_FALSE(check_options(options));
}

TEST(SandboxSpec, LimitsOfALivingSandboxChange) {
  engine::Limits now;
  now.memory_bytes = 1;
  LimitWish wanted;
  wanted.memory_bytes = 64ULL << 20U;
  wanted.idle_seconds = 5;
  const auto changed = change_limits({now, std::nullopt}, wanted);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->limits.memory_bytes, 64ULL << 20U);
  EXPECT_EQ(changed->limits.disk_bytes, now.disk_bytes);
  EXPECT_EQ(changed->idle_seconds, 5);
  wanted = {};
  wanted.disk_bytes = 64ULL << 20U;
  EXPECT_EQ(change_limits({now, std::nullopt}, wanted).error().code, Errc::Unsupported);
}

TEST(Records, WhatIsKeptComesBack) {
  KeptSpec spec;
  spec.name = "build";
  spec.profile = "python";
  spec.tools = {"shell_exec"};
  spec.labels = {{"team", "red \"quoted\""}};
  spec.environment = {"A=b\nc"};
  spec.workdir = "/workspace";
  spec.idle_seconds = 1.5;
  spec.root = engine::RootMode::Writable;
  spec.uid = 1000;
  spec.authority = KeptAuthority{"-----BEGIN", "c2VhbGVk", {"a.example", "*.b.example"}};
  spec.budget = {100, 5'000'000'000, true, 42, 7};
  spec.models = true;
  spec.token = true;
  spec.interpreters[Language::Python] = {true, {"json", "numpy"}};
  spec.interpreters[Language::JavaScript] = {false, {}};
  spec.interpreter_processes = {3, 9};
  spec.ports_inside = {80, 8080};
  const auto again = parse_kept_spec(to_json(spec));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, spec);
}

TEST(Plan, InterpretersAreTheWishsThenTheProfiles) {
  FleetOptions options;
  options.profiles["science"].interpreters = {{Language::Python, {true, {"numpy"}}}};
  CreateWish wish;
  wish.profile = "science";
  auto plan = plan_sandbox(wish, options);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->interpreters.at(Language::Python).imports, std::vector<std::string>{"numpy"});
  wish.interpreters.emplace();
  plan = plan_sandbox(wish, options);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->interpreters.empty());
  for (const std::string& name : {std::string("a b"), std::string("os; x"), std::string(),
                                  std::string(kImportBytesMax + 1, 'a')}) {
    wish.interpreters = InterpreterWishes{{Language::Python, {true, {name}}}};
    plan = plan_sandbox(wish, options);
    ASSERT_FALSE(plan) << name;
    EXPECT_EQ(plan.error().field, "interpreters.python.imports");
  }
  wish.interpreters = InterpreterWishes{{Language::Python, {true, {}}}};
  wish.interpreters->at(Language::Python).imports.assign(kImportsMax + 1, "a");
  EXPECT_FALSE(plan_sandbox(wish, options));
}

TEST(Records, ABrokenRecordIsRefused) {
  const std::string good = to_json(KeptSpec{});
  EXPECT_TRUE(parse_kept_spec(good));
  for (const std::string_view text : {"", "[]", "{}", R"({"version": 2})", R"({"version": 1})"})
    EXPECT_FALSE(parse_kept_spec(text)) << text;
}

}  // namespace
}  // namespace caisson::control
