#include "policy/capability_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/describe.h"
#include "policy/yaml_tree.h"

namespace caisson::policy {
namespace {

std::string error_of(std::string_view text) {
  const auto result = CapabilityParser::from_string(text);
  if (result) return "accepted: " + to_string(*result);
  EXPECT_EQ(result.error().code, Errc::InvalidArgument);
  return result.error().message;
}

void expect_refused(std::string_view text, std::string_view part) {
  const std::string message = error_of(text);
  EXPECT_TRUE(message.starts_with("capability validation error: ")) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message << "\nwants: " << part;
}

// --- what must not pass ---

TEST(CapabilityParser, UnknownFieldNamesTheLineAndTheKnownFields) {
  EXPECT_EQ(
      error_of("sandbox_tier: seccomp\n"
               "resource_limits:\n"
               "  max_tokens: 5\n"
               "  max_memory: 12\n"),
      "capability validation error: line 4, column 3: unknown field \"max_memory\" in "
      "resource_limits; known fields: max_memory_mb, max_cpu_seconds, max_cost_usd, max_tokens");
  expect_refused("sandbox_teir: gvisor\n",
                 "line 1, column 1: unknown field \"sandbox_teir\" in the");
  expect_refused("network_egress_rules: [{domain: a.example, port: 80}]\n",
                 "unknown field \"port\" in network_egress_rules[0]");
  expect_refused("<<: {sandbox_tier: gvisor}\n", "unknown field \"<<\"");
}

TEST(CapabilityParser, FieldGivenTwiceIsRefused) {
  expect_refused("sandbox_tier: seccomp\nsandbox_tier: gvisor\n",
                 "line 2, column 1: field \"sandbox_tier\" is given twice; first on line 1");
  expect_refused("resource_limits: {max_tokens: 1, 'max_tokens': 2}\n", "is given twice");
}

TEST(CapabilityParser, WrongTypesAreRefused) {
  expect_refused("[]\n", "the capability must be a mapping, found a list");
  expect_refused("hello\n", "the capability must be a mapping");
  expect_refused("sandbox_tier: [gvisor]\n", "sandbox_tier must be a string, found a list");
  expect_refused("network_egress_rules: api.example.com\n", "must be a list");
  expect_refused("network_egress_rules: [api.example.com]\n",
                 "network_egress_rules[0] must be a map");
  expect_refused("permissions: read_env\n", "permissions must be a list");
  expect_refused("resource_limits: 5\n", "resource_limits must be a mapping");
  expect_refused("resource_limits: {max_memory_mb: \"512\"}\n", "found a quoted string");
  expect_refused("resource_limits: {max_memory_mb: 1.5}\n",
                 "must be a whole number, found \"1.5\"");
  expect_refused("resource_limits: {max_memory_mb: true}\n", "must be a whole number");
  expect_refused("env_allowlist: PATH\n", "env_allowlist must be a list");
  expect_refused("env_allowlist: [~]\n", "env_allowlist must be a string, found null");
}

// An empty list of writable paths means everywhere, so a forgotten list must not become one.
TEST(CapabilityParser, NullIsNotAList) {
  expect_refused("filesystem_config:\n  mode: read_write\n  writable_paths:\n",
                 "filesystem_config.writable_paths must be a list ([] for none), found nothing");
  expect_refused("network_egress_rules:\n", "found nothing");
  expect_refused("network_egress_rules: null\n", "found null");
  expect_refused("resource_limits:\n", "found nothing");
}

TEST(CapabilityParser, NumbersOutOfRangeAreRefused) {
  expect_refused("resource_limits: {max_memory_mb: 0}\n", "max_memory_mb: must be from 1 to");
  expect_refused("resource_limits: {max_memory_mb: -5}\n", "found -5");
  expect_refused("resource_limits: {max_memory_mb: 99999999999999999999}\n", "must be from 1 to");
  expect_refused("resource_limits: {max_tokens: 0}\n", "max_tokens: must be from 1");
  expect_refused("resource_limits: {max_cpu_seconds: 0}\n", "must be greater than 0");
  expect_refused("resource_limits: {max_cpu_seconds: -1.5}\n", "must be greater than 0");
  expect_refused("resource_limits: {max_cpu_seconds: 1e400}\n",
                 "must be greater than 0 and at most");
  expect_refused("resource_limits: {max_cpu_seconds: 1e10}\n", "at most 1000000000");
  expect_refused("resource_limits: {max_cost_usd: 1e-12}\n", "must be at least");
  expect_refused("network_egress_rules: [{domain: a.b, ports: [0]}]\n", "from 1 to 65535");
  expect_refused("network_egress_rules: [{domain: a.b, ports: [65536]}]\n", "from 1 to 65535");
  expect_refused("network_egress_rules: [{domain: a.b, rate_limit_per_min: 0}]\n",
                 "rate_limit_per_min: must be from 1");
}

TEST(CapabilityParser, NumbersThatReadersDisagreeAboutAreRefused) {
  for (const char* number : {".nan", ".inf", "-.inf", "nan", "inf", "infinity", "0x1p3", "1_000",
                             "", "1e", "--1", "1 2", "0x10"}) {
    expect_refused("resource_limits: {max_cpu_seconds: " + std::string(number) + "}\n",
                   "must be a finite decimal number");
  }
  for (const char* number : {"010", "0x10", "1_000", "1e3", "+-1", "1 2"}) {
    expect_refused("resource_limits: {max_tokens: " + std::string(number) + "}\n",
                   "must be a whole number");
  }
}

TEST(CapabilityParser, UnknownWordsAreRefused) {
  expect_refused(
      "sandbox_tier: docker\n",
      "line 1, column 15: sandbox_tier: unknown sandbox tier \"docker\"; known: seccomp, "
      "gvisor, firecracker");
  expect_refused("sandbox_tier: Seccomp\n", "unknown sandbox tier");
  expect_refused("filesystem_config: {mode: rw}\n", "unknown filesystem mode \"rw\"");
  expect_refused("permissions: [root]\n",
                 "unknown permission \"root\"; known: read_env, spawn_subprocess");
}

TEST(CapabilityParser, SyntaxErrorsNameTheLine) {
  expect_refused("sandbox_tier: seccomp\npermissions: [read_env\n", "line 3, column 1: YAML: ");
  expect_refused("a: b: c\n", "YAML: ");
  expect_refused("\"unfinished", "YAML: ");
}

TEST(CapabilityParser, TextIsOneDocumentWithoutReferences) {
  expect_refused("sandbox_tier: seccomp\n---\nsandbox_tier: gvisor\n", "more than one document");
  expect_refused("permissions: &a [read_env]\n", "an anchor (&name) is not allowed");
  expect_refused("permissions: &a\n", "an anchor (&name) is not allowed");
  expect_refused("permissions: *a\n", "YAML: ");  // an alias without its anchor
  expect_refused("a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "an anchor (&name) is not allowed");
  expect_refused("sandbox_tier: !!str seccomp\n", "a tag (!name) is not allowed");
  expect_refused("? [a, b]\n: c\n", "a field name must be a plain word");
  expect_refused("~: c\n", "a field name must be a plain word");
  expect_refused("%sandbox_tier: gvisor\n", "a directive (%NAME) is not allowed");
  expect_refused("{}\nsandbox_tier: gvisor\n", "more than one document");
}

TEST(CapabilityParser, BytesThatAreNotTextAreRefused) {
  expect_refused(std::string_view("sandbox_tier: seccomp\0\n", 23), "a NUL or control character");
  expect_refused("sandbox_tier: \x1b[31m\n", "line 1, column 15: a NUL or control character");
  expect_refused("sandbox_tier: \xff\n", "not valid UTF-8");
  expect_refused("\xff\xfe", "not valid UTF-8");
  expect_refused("sandbox_tier: \"\\e[31m\"\n", "unknown sandbox tier \"\\x1b[31m\"");
}

TEST(CapabilityParser, PathsThatCouldMeanSomethingElseAreRefused) {
  for (const char* path :
       {"/tmp/../etc", "..", "a/..", "\"\"", "\"/tmp/\\0x\"", "\"/a\\nb\"", "~/x"}) {
    const std::string text =
        "filesystem_config: {mode: read_write, writable_paths: [" + std::string(path) + "]}\n";
    expect_refused(text, "filesystem_config.writable_paths: path ");
  }
}

TEST(CapabilityParser, DomainsAreCheckedByTheOneHostFunction) {
  for (const char* domain : {"127.0.0.1", "'*'", "'*.*.com'", "a.example.", "'a b'", "2130706433",
                             "''", "'[::1]'", "https://a.example"}) {
    expect_refused("network_egress_rules: [{domain: " + std::string(domain) + "}]\n",
                   "network_egress_rules[0].domain: host ");
  }
  expect_refused("network_egress_rules: [{ports: [80]}]\n",
                 "network_egress_rules[0] has no domain");
}

TEST(CapabilityParser, EnvironmentNamesAreChecked) {
  for (const char* name : {"A=B", "1A", "''", "'A B'", "A-B"}) {
    expect_refused("env_allowlist: [" + std::string(name) + "]\n",
                   "is not the name of an environment variable");
  }
}

// --- every limit is reached ---

std::string repeated(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

TEST(CapabilityParser, LimitsHoldExactly) {
  const std::string rules =
      "network_egress_rules:\n" + repeated("- {domain: a.b}\n", kEgressRulesMax);
  EXPECT_TRUE(CapabilityParser::from_string(rules));
  expect_refused(rules + "- {domain: a.b}\n", "has 1025 entries, at most 1024");

  const std::string paths =
      "filesystem_config:\n  writable_paths:\n" + repeated("  - /x\n", kWritablePathsMax);
  EXPECT_TRUE(CapabilityParser::from_string(paths));
  expect_refused(paths + "  - /x\n", "has 65 entries, at most 64");

  const std::string names = "env_allowlist:\n" + repeated("- A\n", kEnvAllowlistMax);
  EXPECT_TRUE(CapabilityParser::from_string(names));
  expect_refused(names + "- A\n", "at most 256");

  const std::string permissions = "permissions:\n" + repeated("- read_env\n", kPermissionsMax);
  EXPECT_TRUE(CapabilityParser::from_string(permissions));
  expect_refused(permissions + "- read_env\n", "at most 16");

  const std::string ports =
      "network_egress_rules:\n- domain: a.b\n  ports:\n" + repeated("  - 1\n", kPortsPerRuleMax);
  EXPECT_TRUE(CapabilityParser::from_string(ports));
  expect_refused(ports + "  - 1\n", "at most 256");
}

TEST(CapabilityParser, SizeDepthAndKeysAreBounded) {
  EXPECT_TRUE(CapabilityParser::from_string(std::string(kCapabilityBytesMax, '\n')));
  expect_refused(std::string(kCapabilityBytesMax + 1, '\n'), "65537 bytes are too many");
  expect_refused("a: " + repeated("[", kYamlDepthMax) + repeated("]", kYamlDepthMax),
                 "nested too deeply");
  expect_refused("a: " + repeated("{b: ", 30000 / 4), "nested too deeply");
  std::string keys;
  for (std::size_t i = 0; i <= kYamlKeysMax; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  expect_refused(keys, "line 65, column 1: too many fields in one mapping");
}

// Texts that cost a careless parser its stack or its afternoon; here only the answer is checked.
TEST(CapabilityParser, FloodsAreRefused) {
  for (const std::string_view part : {"[", "{", "- ", "? ", ": ", "a: ", "{a: ", "[a, ", "!", "&a ",
                                      "*a ", "\"", "'", "|\n", "%", "---\n", "{{a", "- ? "}) {
    const std::string flood = repeated(part, kCapabilityBytesMax / part.size());
    EXPECT_FALSE(CapabilityParser::from_string(flood)) << part;
  }
}

// --- what must pass ---

TEST(CapabilityParser, EmptyTextIsAllDefaults) {
  for (const char* text : {"", "\n", "# nothing\n", "---\n", "{}\n", "~\n", "--- \n...\n"}) {
    const auto result = CapabilityParser::from_string(text);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(*result, CapabilityDeclaration()) << text;
  }
  const CapabilityDeclaration defaults;
  EXPECT_EQ(defaults.sandbox_tier, SandboxTier::Native);
  EXPECT_EQ(defaults.filesystem_config.mode, FilesystemMode::ReadOnly);
  EXPECT_EQ(defaults.resource_limits.max_memory_mb, 512);
  EXPECT_EQ(defaults.resource_limits.max_cpu_seconds, 30.0);
  EXPECT_EQ(defaults.resource_limits.max_cost_usd, 0.10);
  EXPECT_EQ(defaults.resource_limits.max_tokens, 100000);
  EXPECT_FALSE(defaults.env_allowlist);
}

constexpr std::string_view kFull = R"(# an agent that calls one API
sandbox_tier: gvisor
network_egress_rules:
  - domain: API.Example.com
    ports: [443, 8443]
    rate_limit_per_min: 30
  - domain: "*.pypi.org"
filesystem_config:
  mode: read_write
  writable_paths:
    - /tmp//work/
    - out/./data
    - /données
resource_limits:
  max_memory_mb: 256
  max_cpu_seconds: 1.5
  max_cost_usd: .25
  max_tokens: 1000
permissions: [spawn_subprocess, read_env, read_env]
env_allowlist: [PATH, LANG]
)";

TEST(CapabilityParser, EveryFieldIsRead) {
  const auto result = CapabilityParser::from_string(kFull);
  ASSERT_TRUE(result) << result.error().message;
  CapabilityDeclaration wanted;
  wanted.sandbox_tier = SandboxTier::Gvisor;
  wanted.network_egress_rules = {
      {.domain = "api.example.com", .ports = {443, 8443}, .rate_limit_per_min = 30},
      {.domain = "*.pypi.org", .ports = {}}};
  wanted.filesystem_config = {FilesystemMode::ReadWrite, {"/tmp/work", "out/data", "/données"}};
  wanted.resource_limits = {256, 1.5, 0.25, 1000};
  wanted.permissions = {Permission::ReadEnv, Permission::SpawnSubprocess};
  wanted.env_allowlist = {{"PATH", "LANG"}};
  EXPECT_EQ(*result, wanted) << to_string(*result);
  const auto checked = validate(*result);
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(*checked, wanted);
}

TEST(CapabilityParser, TiersHaveTwoNamesAndPrintTheContracts) {
  const auto printed = [](const std::string& name) {
    const auto result = CapabilityParser::from_string("sandbox_tier: " + name + "\n");
    return result ? std::string(to_string(result->sandbox_tier)) : result.error().message;
  };
  EXPECT_EQ(printed("seccomp"), "seccomp");
  EXPECT_EQ(printed("native"), "seccomp");
  EXPECT_EQ(printed("gvisor"), "gvisor");
  EXPECT_EQ(printed("firecracker"), "firecracker");
  EXPECT_EQ(printed("microvm"), "firecracker");
}

TEST(CapabilityParser, ItsOwnJsonReadsBackTheSame) {
  for (const std::string_view text : {std::string_view(), kFull}) {
    const auto first = CapabilityParser::from_string(text);
    ASSERT_TRUE(first);
    const auto second = CapabilityParser::from_string(capability_json(*first));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(*first, *second);
  }
}

TEST(CapabilityParser, AnEmptyAllowlistIsNotNull) {
  const auto result = CapabilityParser::from_string("env_allowlist: []\n");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->env_allowlist, std::vector<std::string>());
}

// No allowlist means that everything passes, so a list that lost its entries must not become none.
TEST(CapabilityParser, ANullAllowlistTakesTheWord) {
  for (const char* text :
       {"env_allowlist:\n", "env_allowlist:\n#  - PATH\npermissions: [read_env]\n",
        "{env_allowlist: , permissions: []}", "{env_allowlist}",
        "env_allowlist:\nnetwork_egress_rules: []\n", "env_allowlist:"}) {
    expect_refused(text, "env_allowlist must be a list or the word null, found nothing");
  }
  for (const char* text : {"env_allowlist: null\n", "env_allowlist: ~", "{env_allowlist: NULL}",
                           "\xef\xbb\xbf# é\r\nenv_allowlist: Null\r\n", "env_allowlist:\n  ~\n",
                           "{\"env_allowlist\":null,\"permissions\":[]}"}) {
    const auto result = CapabilityParser::from_string(text);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_FALSE(result->env_allowlist);
  }
}

// --- values built by hand ---

TEST(Validate, NamesTheFieldThatIsWrong) {
  const auto message = [](const CapabilityDeclaration& capability) {
    const auto result = validate(capability);
    return result ? "accepted" : result.error().message;
  };
  CapabilityDeclaration capability;
  capability.network_egress_rules = {{.domain = "a.b", .ports = {0}}};
  EXPECT_EQ(message(capability),
            "network_egress_rules[0]: ports: must be from 1 to 65535, found 0");
  capability = {};
  capability.resource_limits.max_cost_usd = -1;
  EXPECT_TRUE(message(capability).starts_with("resource_limits: max_cost_usd: must be greater"));
  capability = {};
  capability.filesystem_config.writable_paths = {"/a/../b"};
  EXPECT_TRUE(message(capability).starts_with("filesystem_config.writable_paths: path"));
  capability = {};
  capability.env_allowlist = {{"A=B"}};
  EXPECT_TRUE(message(capability).starts_with("env_allowlist: "));
}

TEST(Validate, DetailsOfARuleAreBoundedAndPlain) {
  const auto valid = [](const NetworkEgressRule& rule) {
    CapabilityDeclaration capability;
    capability.network_egress_rules = {rule};
    return validate(capability).has_value();
  };
  NetworkEgressRule plain;
  plain.domain = "a.example";
  for (const char* method : {"", "get", "GET ", "G\nT", "A0"}) {
    NetworkEgressRule rule = plain;
    rule.methods = {method};
    EXPECT_FALSE(valid(rule)) << method;
  }
  for (const char* prefix : {"", "v1", "/a/../b", "/a/..", "/.", "/./a", "//a", "/a%2e", "/a?b",
                             "/a#b", "/a b", "/a\\b", "/a;b"}) {
    NetworkEgressRule rule = plain;
    rule.path_prefixes = {prefix};
    EXPECT_FALSE(valid(rule)) << prefix;
  }
  NetworkEgressRule most = plain;
  most.methods.assign(kMethodsPerRuleMax, "GET");
  most.path_prefixes.assign(kPathPrefixesPerRuleMax,
                            "/" + std::string(kPathPrefixBytesMax - 1, 'a'));
  most.granted_addresses.assign(kGrantedAddressesPerRuleMax, "10.0.0.1");
  most.max_bytes = kEgressBytesMax;
  EXPECT_TRUE(valid(most));
  const auto beyond = [&](auto change) {
    NetworkEgressRule rule = most;
    change(rule);
    return valid(rule);
  };
  EXPECT_FALSE(beyond([](NetworkEgressRule& rule) { rule.methods.emplace_back("GET"); }));
  EXPECT_FALSE(beyond([](NetworkEgressRule& rule) { rule.path_prefixes.emplace_back("/"); }));
  EXPECT_FALSE(beyond([](NetworkEgressRule& rule) { rule.path_prefixes[0] += "a"; }));
  EXPECT_FALSE(beyond([](NetworkEgressRule& rule) { rule.granted_addresses.emplace_back(); }));
  EXPECT_FALSE(beyond([](NetworkEgressRule& rule) { ++rule.max_bytes; }));
  EXPECT_FALSE(beyond([](NetworkEgressRule& rule) { rule.max_bytes = -1; }));
}

}  // namespace
}  // namespace caisson::policy
