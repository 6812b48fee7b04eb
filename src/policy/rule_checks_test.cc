#include "policy/rule_checks.h"

#include <gtest/gtest.h>

#include <string>

#include "policy/capability_parser.h"
#include "policy/describe.h"

namespace caisson::policy {
namespace {

std::string rule_error(const std::string& words) {
  const auto result = CapabilityParser::from_string(
      "network_egress_rules:\n  - {domain: a.example, " + words + "}");
  return result ? "accepted: " + to_string(*result) : result.error().message;
}

void expect_refused(const std::string& words, std::string_view part) {
  const std::string message = rule_error(words);
  EXPECT_NE(message.find(part), std::string::npos) << message << "\nwants: " << part;
  EXPECT_NE(message.find("line 2, column "), std::string::npos) << message;
}

std::string repeated(std::string_view item, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += (out.empty() ? "" : ", ") + std::string(item);
  return "[" + out + "]";
}

// --- what must not pass ---

TEST(RuleWords, UnknownFieldsStayErrors) {
  expect_refused("method: [GET]", "known fields: domain, ports, rate_limit_per_min, methods, ");
  expect_refused("inject: [{header: X-Key, secret: a, value: b}]",
                 "unknown field \"value\" in network_egress_rules[0].inject[0]");
}

TEST(RuleWords, WrongWordsNameTheirPlace) {
  expect_refused("methods: GET", "must be a list");
  expect_refused("methods: [get]", "methods: \"get\" is not an HTTP method");
  expect_refused("path_prefixes: [v1]", "is not the beginning of a path");
  expect_refused("path_prefixes: [/v1/../admin]", "is not the beginning of a path");
  expect_refused("max_bytes: -1", "must be from 0");
  expect_refused("max_bytes: 1e6", "must be a whole number");
  for (const char* address : {"a.example", "127.1", "0x7f000001", "'[::1]'", "::1%lo", "''"}) {
    expect_refused("granted_addresses: [" + std::string(address) + "]", "is not an IP address");
  }
  expect_refused("inspect: yes", "must be true or false");
  expect_refused("inspect: 'true'", "must be true or false");
}

TEST(RuleWords, AnAddressIsGrantedToOneName) {
  const auto result = CapabilityParser::from_string(
      "network_egress_rules: [{domain: '*.a.example', granted_addresses: [10.0.0.5]}]");
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("granted to one name"), std::string::npos);
}

// With one of these a rule could move the end of a request or its target.
TEST(RuleWords, HeadersThatFrameOrRouteAreNeverInjected) {
  for (const char* header :
       {"Host", "content-length", "Transfer-Encoding", "Connection", "keep-alive", "TE", "Trailer",
        "Upgrade", "Proxy-Authorization", "proxy-connection", "Proxy-Authenticate", "Expect"}) {
    expect_refused("inject: [{header: " + std::string(header) + ", secret: k}]",
                   "cannot be injected");
  }
  for (const char* header : {"''", "'a b'", "'a:'", "\"a\\r\\nb\"", "'é'", "'a\"'"}) {
    expect_refused("inject: [{header: " + std::string(header) + ", secret: k}]",
                   "is not the name of a header");
  }
}

TEST(RuleWords, InjectionsAreWholeAndNamedOnce) {
  expect_refused("inject: [{secret: k}]", "inject[0] has no header");
  expect_refused("inject: [{header: X-Key}]", "inject[0] has no secret");
  expect_refused("inject: [X-Key]", "must be a mapping");
  expect_refused("inject: [{header: X-Key, secret: a}, {header: x-key, secret: b}]", "named twice");
  expect_refused("inject: [{header: X-Key, secret: k, prefix: \"a\\r\\nb\"}]",
                 "cannot stand before a secret");
  expect_refused("inject: [{header: X-Key, secret: k, prefix: ' a'}]",
                 "cannot stand before a secret");
}

// Who writes the secret itself where its name belongs does not find it in the message.
TEST(RuleWords, AWrongSecretNameIsNotRepeated) {
  const std::string message = rule_error("inject: [{header: X-Key, secret: 'sk live/Zm9v'}]");
  EXPECT_NE(message.find("not the name of a secret"), std::string::npos) << message;
  EXPECT_EQ(message.find("Zm9v"), std::string::npos) << message;
}

TEST(RuleWords, EverythingHasALimit) {
  expect_refused("methods: " + repeated("GET", kMethodsPerRuleMax + 1), "at most 32");
  expect_refused("path_prefixes: " + repeated("/a", kPathPrefixesPerRuleMax + 1), "at most 64");
  expect_refused("granted_addresses: " + repeated("10.0.0.1", kGrantedAddressesPerRuleMax + 1),
                 "at most 16");
  expect_refused("inject: " + repeated("{header: A, secret: a}", kInjectionsPerRuleMax + 1),
                 "at most 8");
  EXPECT_FALSE(check_header_name(std::string(kHeaderNameBytesMax + 1, 'a')));
  EXPECT_FALSE(check_secret_name(std::string(kSecretNameBytesMax + 1, 'a')));
  EXPECT_FALSE(check_header_prefix(std::string(kHeaderPrefixBytesMax + 1, 'a')));
  EXPECT_TRUE(check_secret_name(std::string(kSecretNameBytesMax, 'a')));
  expect_refused("max_bytes: " + std::to_string(kEgressBytesMax + 1), "must be from 0");
}

TEST(RuleWords, RulesBuiltByHandAreJudgedTheSame) {
  CapabilityDeclaration capability;
  capability.network_egress_rules = {{.domain = "a.example", .ports = {443}}};
  NetworkEgressRule& rule = capability.network_egress_rules[0];
  rule.inject = {{"Host", "k", ""}};
  EXPECT_FALSE(validate(capability));
  rule.inject = {{"X-Key", "a b", ""}};
  EXPECT_FALSE(validate(capability));
  rule.inject = {{"X-Key", "k", "\n"}};
  EXPECT_FALSE(validate(capability));
  rule.inject.assign(kInjectionsPerRuleMax + 1, {"X-Key", "k", ""});
  EXPECT_FALSE(validate(capability));
  rule.inject = {{"X-Key", "k", ""}, {"X-KEY", "k", ""}};
  EXPECT_FALSE(validate(capability));
  rule.inject = {{"X-Key", "k", "Bearer "}};
  EXPECT_TRUE(validate(capability));
}

TEST(RuleWords, EveryNameGrantsNoAddressAndOnlyItIsADefault) {
  CapabilityDeclaration capability;
  capability.network_egress_rules = {{.domain = "*", .ports = {}}};
  NetworkEgressRule& rule = capability.network_egress_rules[0];
  EXPECT_FALSE(validate(capability)) << "a word of our own rules alone";
  rule.every_name = rule.otherwise = rule.inspect = true;
  EXPECT_TRUE(validate(capability));
  EXPECT_TRUE(to_string(rule).ends_with("inspect: true, otherwise: true}")) << to_string(rule);
  rule.granted_addresses = {"10.0.0.1"};
  EXPECT_NE(validate(capability).error().message.find("[0]: granted_addresses: "),
            std::string::npos);
  rule = {.domain = "a.example", .ports = {}};
  rule.otherwise = true;
  EXPECT_NE(validate(capability).error().message.find("[0]: otherwise: "), std::string::npos);
  expect_refused("otherwise: true", "unknown field \"otherwise\"");
}

// --- what must ---

TEST(RuleWords, EveryWordIsReadPrintedAndReadBack) {
  const auto capability = CapabilityParser::from_string(
      "network_egress_rules:\n"
      "  - domain: api.example.com\n"
      "    ports: [443]\n"
      "    methods: [GET, POST]\n"
      "    path_prefixes: [/v1/, /health]\n"
      "    max_bytes: 1000000\n"
      "    granted_addresses: [10.0.0.5, 'fd00::5']\n"
      "    inject: [{header: Authorization, secret: KEY.a-1, prefix: \"Bearer \"}]\n"
      "  - {domain: '*.example.org', inspect: true, inject: [{header: X-Key, secret: k}]}\n");
  ASSERT_TRUE(capability) << capability.error().message;
  const NetworkEgressRule& rule = capability->network_egress_rules[0];
  EXPECT_EQ(rule.methods, (std::vector<std::string>{"GET", "POST"}));
  EXPECT_EQ(rule.max_bytes, 1000000);
  EXPECT_EQ(rule.granted_addresses.size(), 2U);
  EXPECT_EQ(rule.inject, (std::vector<HeaderInjection>{{"Authorization", "KEY.a-1", "Bearer "}}));
  EXPECT_TRUE(rule.intercepts());
  EXPECT_FALSE(rule.inspect);
  EXPECT_TRUE(capability->network_egress_rules[1].inspect);
  EXPECT_FALSE(NetworkEgressRule{}.intercepts());
  EXPECT_NE(to_string(rule).find("inject: [{header: \"Authorization\", secret: \"KEY.a-1\", "
                                 "prefix: \"Bearer \"}]}"),
            std::string::npos)
      << to_string(rule);
  EXPECT_TRUE(to_string(capability->network_egress_rules[1]).ends_with("inspect: true}"));
  const auto again = CapabilityParser::from_string(capability_json(*capability));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *capability);
  EXPECT_EQ(*validate(*capability), *capability);
}

}  // namespace
}  // namespace caisson::policy
