#include "policy/describe.h"

#include <gtest/gtest.h>

#include <string>

#include "policy/wording.h"

namespace caisson::policy {
namespace {

TEST(Describe, InvalidJsonEscapesWhatItQuotes) {
  EXPECT_EQ(describe_invalid_json("capability validation error: \"x\"\n"),
            R"({"valid": false, "error": "capability validation error: \"x\"\n"})");
}

TEST(Describe, TextIsAligned) {
  CapabilityDeclaration capability;
  EXPECT_EQ(describe_text(capability),
            "VALID\n"
            "  sandbox_tier:    seccomp\n"
            "  filesystem_mode: read_only\n"
            "  max_memory_mb:   512\n"
            "  max_cpu_seconds: 30.0\n"
            "  max_cost_usd:    0.10\n"
            "  max_tokens:      100000\n"
            "  egress_rules:    0\n"
            "  permissions:     none\n");
  capability.permissions = {Permission::ReadEnv, Permission::SpawnSubprocess};
  EXPECT_TRUE(describe_text(capability).ends_with("permissions:     read_env, spawn_subprocess\n"));
}

TEST(Describe, JsonHasTheNamesOfTheYaml) {
  CapabilityDeclaration capability;
  EXPECT_EQ(
      describe_json(capability),
      R"({"valid": true, "capability": {"sandbox_tier": "seccomp", "network_egress_rules": [], )"
      R"("filesystem_config": {"mode": "read_only", "writable_paths": []}, )"
      R"("resource_limits": {"max_memory_mb": 512, "max_cpu_seconds": 30.0, )"
      R"("max_cost_usd": 0.1, "max_tokens": 100000}, "permissions": [], "env_allowlist": null}})");
  capability.sandbox_tier = SandboxTier::Microvm;
  capability.network_egress_rules = {{.domain = "a.b", .ports = {80, 443}}};
  capability.filesystem_config = {FilesystemMode::ReadWrite, {"/a \"b\"", "/é"}};
  capability.permissions = {Permission::ReadEnv};
  capability.env_allowlist = {{"PATH"}};
  EXPECT_EQ(capability_json(capability),
            R"({"sandbox_tier": "firecracker", "network_egress_rules": [{"domain": "a.b", )"
            R"("ports": [80, 443], "rate_limit_per_min": 60}], "filesystem_config": {)"
            R"("mode": "read_write", "writable_paths": ["/a \"b\"", "/é"]}, )"
            R"("resource_limits": {"max_memory_mb": 512, "max_cpu_seconds": 30.0, )"
            R"("max_cost_usd": 0.1, "max_tokens": 100000}, "permissions": ["read_env"], )"
            R"("env_allowlist": ["PATH"]})");
}

TEST(Wording, EveryValuePrints) {
  CapabilityDeclaration capability;
  capability.network_egress_rules = {{.domain = "a.b", .ports = {80}, .apex = Apex::Included}};
  capability.env_allowlist = {{"PATH"}};
  EXPECT_EQ(to_string(capability),
            "{sandbox_tier: seccomp, network_egress_rules: [{domain: \"a.b\", ports: [80], "
            "rate_limit_per_min: 60, apex: included}], filesystem_config: {mode: read_only, "
            "writable_paths: []}, resource_limits: {max_memory_mb: 512, max_cpu_seconds: 30.0, "
            "max_cost_usd: 0.1, max_tokens: 100000}, permissions: [], env_allowlist: [\"PATH\"]}");
}

TEST(Wording, QuotedTextNeitherActsNorGrows) {
  EXPECT_EQ(in_quotes("a\"\\\x1b\xc3\xa9"), "\"a\\\"\\\\\\x1b\\xc3\\xa9\"");
  EXPECT_EQ(in_quotes(std::string(1000, 'a')), '"' + std::string(kQuotedBytesMax, 'a') + "...\"");
}

TEST(Wording, Utf8IsWellFormed) {
  for (const char* text : {"", "a", "é", "€", "😀"}) EXPECT_TRUE(is_utf8(text)) << text;
  for (const char* text : {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80",
                           "\xf5\x80\x80\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xff"}) {
    EXPECT_FALSE(is_utf8(text)) << in_quotes(text);
  }
}

TEST(Wording, DecimalsAreShort) {
  EXPECT_EQ(decimal(30, 1), "30.0");
  EXPECT_EQ(decimal(0.1, 1), "0.1");
  EXPECT_EQ(decimal(0.1, 2), "0.10");
  EXPECT_EQ(decimal(1e9, 0), "1000000000");
  EXPECT_EQ(decimal(1e-9, 1), "1e-09");
}

}  // namespace
}  // namespace caisson::policy
