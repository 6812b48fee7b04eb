#include "control/network_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>

#include "policy/egress.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

std::string field_of(const char* text, Trust trust = Trust::Operator) {
  auto rules = read_rules(json::parse(text), "network.rules");
  if (!rules) return rules.error().field;
  NetworkWish wish;
  wish.rules = *std::move(rules);
  const auto judged = rules_of(wish, trust);
  return judged ? "" : judged.error().field;
}

TEST(NetworkRules, BadRulesNameTheirField) {
  EXPECT_EQ(field_of("{}"), "network.rules");
  EXPECT_EQ(field_of("[7]"), "network.rules[0]");
  EXPECT_EQ(field_of("[{}]"), "network.rules[0].domain");
  EXPECT_EQ(field_of(R"([{"domain": 7}])"), "network.rules[0].domain");
  EXPECT_EQ(field_of(R"([{"domain": "a.b", "colour": 1}])"), "network.rules[0].colour");
  EXPECT_EQ(field_of(R"([{"domain": "a.b", "ports": [0]}])"), "network.rules[0].ports");
  EXPECT_EQ(field_of(R"([{"domain": "a.b", "ports": [1.5]}])"), "network.rules[0].ports");
  EXPECT_EQ(field_of(R"([{"domain": "a.b", "ports": 443}])"), "network.rules[0].ports");
  EXPECT_EQ(field_of(R"([{"domain": "a.b", "max_bytes": -1}])"), "network.rules[0].max_bytes");
  EXPECT_EQ(field_of(R"([{"domain": "a.b", "inject": [{"header": "A", "x": 1}]}])"),
            "network.rules[0].inject[0].x");
  EXPECT_NE(field_of(R"([{"domain": "127.0.0.1"}])"), "");
  EXPECT_NE(field_of(R"([{"domain": "*.*.b"}])"), "");
  EXPECT_NE(field_of(R"([{"domain": "*.a.b", "granted_addresses": ["10.0.0.1"]}])"), "");
}

TEST(NetworkRules, WhatReachesInwardIsTheOperatorsWord) {
  const char* inward = R"([{"domain": "db.test", "granted_addresses": ["10.0.0.1"]}])";
  EXPECT_EQ(field_of(inward, Trust::Caller), "network.rules[0].granted_addresses");
  EXPECT_EQ(field_of(inward, Trust::Operator), "");
  const char* secret =
      R"([{"domain": "a.b"}, {"domain": "c.d", "inject": [{"header": "A", "secret": "s"}]}])";
  EXPECT_EQ(field_of(secret, Trust::Caller), "network.rules[1].inject");
}

// Secrets that the caller himself told a door, under exactly these names; nothing else comes with
// it.
TEST(NetworkRules, ACallerSpendsHisOwnSecretsAndNoOthers) {
  NetworkWish wish;
  wish.rules = EgressRules{{"a.example", {}}, {"*", {}}};
  wish.rules->at(0).inject = {{"X-Key", "mine-0", ""}};
  wish.rules->at(1).every_name = true;
  const auto refused = [&](Trust trust) {
    const auto judged = rules_of(wish, trust);
    return judged ? std::string() : judged.error().field;
  };
  EXPECT_EQ(refused(Trust::Caller), "network.rules[0].inject");
  wish.own_secrets = {"mine-0"};
  EXPECT_EQ(refused(Trust::Caller), "");
  for (const char* other : {"mine-1", "mine-00", "mine-", "operators", ""}) {
    wish.rules->at(0).inject = {{"X-Key", "mine-0", ""}, {"X-Other", other, ""}};
    EXPECT_EQ(refused(Trust::Caller), "network.rules[0].inject") << other;
  }
  wish.rules->at(0).inject.clear();
  wish.rules->at(0).granted_addresses = {"10.0.0.1"};
  EXPECT_EQ(refused(Trust::Caller), "network.rules[0].granted_addresses");
  wish.rules->at(0).granted_addresses.clear();
  // To every host: his own only, whoever asks.
  wish.rules->at(1).inject = {{"X-Key", "mine-0", ""}};
  EXPECT_EQ(refused(Trust::Caller), "");
  wish.rules->at(1).inject = {{"X-Key", "operators", ""}};
  EXPECT_EQ(refused(Trust::Operator), "network.rules[1].inject");
  EXPECT_EQ(rules_of(wish, Trust::Operator).error().code, Errc::InvalidArgument);
}

TEST(NetworkRules, ModeAndListsMustAgree) {
  NetworkWish wish;
  EXPECT_TRUE(rules_of(wish, Trust::Caller)->empty());
  wish.mode = "allowlist";
  EXPECT_TRUE(rules_of(wish, Trust::Caller)->empty()) << "an empty list allows nothing";
  wish.domain_allowlist = {"a.example"};
  wish.rules = EgressRules{{"b.example", {}}};
  EXPECT_EQ(rules_of(wish, Trust::Caller).error().field, "network.rules");
  wish.rules.reset();
  wish.mode = "none";
  EXPECT_EQ(rules_of(wish, Trust::Caller).error().field, "network.domain_allowlist");
}

TEST(NetworkRules, ANameOfAnAllowlistIsCanonicalAndForTheWeb) {
  NetworkWish wish;
  wish.domain_allowlist = {"API.Example.com", "*.pypi.org"};
  const auto rules = rules_of(wish, Trust::Caller);
  ASSERT_TRUE(rules) << rules.error().message;
  ASSERT_EQ(rules->size(), 2U);
  EXPECT_EQ((*rules)[0].domain, "api.example.com");
  EXPECT_EQ((*rules)[0].ports, (std::vector<std::uint16_t>{80, 443}));
  EXPECT_EQ((*rules)[1].apex, policy::Apex::Excluded);
}

TEST(NetworkRules, EveryNameIsAWordOfOurOwnRulesAlone) {
  const auto one =
      read_rules(boost::json::parse(R"([{"domain": "*", "ports": [443]}])"), "network");
  ASSERT_TRUE(one) << one.error().message;
  NetworkWish wish;
  wish.rules = *one;
  const auto rules = rules_of(wish, Trust::Caller);
  ASSERT_TRUE(rules) << rules.error().message;
  EXPECT_TRUE(policy::matches_name(rules->at(0), "anything.example"));
  EXPECT_EQ(read_rules(to_json(*rules), "network").value(), *rules);
  wish.rules->at(0).inspect = wish.rules->at(0).otherwise = true;
  const auto seen = rules_of(wish, Trust::Caller);
  ASSERT_TRUE(seen) << seen.error().message;
  EXPECT_EQ(read_rules(to_json(*seen), "network").value(), *seen);
  wish.rules->at(0).granted_addresses = {"10.0.0.1"};
  EXPECT_FALSE(rules_of(wish, Trust::Operator));
  NetworkWish list;
  list.domain_allowlist = {"*"};
  EXPECT_FALSE(rules_of(list, Trust::Caller));
}

TEST(NetworkRules, ARecordGivesBackWhatWasKept) {
  policy::NetworkEgressRule rule{"api.example.com", {443, 8443}};
  rule.rate_limit_per_min = 7;
  rule.apex = policy::Apex::Included;
  rule.methods = {"GET"};
  rule.path_prefixes = {"/v1/"};
  rule.max_bytes = 4096;
  rule.granted_addresses = {"10.0.0.1"};
  rule.inject = {{"Authorization", "key", "Bearer "}, {"X-Other", "other"}};
  rule.inspect = true;
  const EgressRules rules{rule, {"b.example", {}}};
  const auto again = read_rules(to_json(rules), "network");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, rules);
}

TEST(NetworkRules, TheVariablesNameTheProxyInBothSpellings) {
  const auto all = way_out_environment();
  for (const char* one : {"HTTP_PROXY=http://127.0.0.1:3128", "https_proxy=http://127.0.0.1:3128",
                          "ALL_PROXY=http://127.0.0.1:3128", "no_proxy=localhost,127.0.0.1,::1"})
    EXPECT_NE(std::ranges::find(all, one), all.end()) << one;
}

}  // namespace
}  // namespace caisson::control
