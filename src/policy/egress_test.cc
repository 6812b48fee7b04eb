#include "policy/egress.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace caisson::policy {
namespace {

NetworkEgressRule rule(std::string domain, std::vector<std::uint16_t> ports = {}) {
  NetworkEgressRule out;
  out.domain = std::move(domain);
  out.ports = std::move(ports);
  return out;
}

TEST(EgressFilter, EmptyRulesDenyAll) {
  const EgressDecision decision = check_egress("https://example.com/", {});
  EXPECT_FALSE(decision.allowed);
  EXPECT_FALSE(decision.rule_index);
  EXPECT_EQ(decision.reason, "example.com:443: no egress rules, nothing leaves");
}

TEST(EgressFilter, WholeLabelsOnly) {
  const EgressFilter filter({rule("*.example.com")});
  EXPECT_FALSE(filter.is_allowed("https://evilexample.com/"));
  EXPECT_FALSE(filter.is_allowed("https://example.com.evil.org/"));
  EXPECT_FALSE(filter.is_allowed("https://example.org/?x=a.example.com"));
  EXPECT_TRUE(filter.is_allowed("https://a.example.com/"));
  EXPECT_TRUE(filter.is_allowed("https://a.b.c.example.com/"));
}

TEST(EgressFilter, TheWildcardLeavesOutTheNameItself) {
  NetworkEgressRule wildcard = rule("*.example.com");
  EXPECT_FALSE(EgressFilter({wildcard}).is_allowed("https://example.com/"));
  wildcard.apex = Apex::Included;
  EXPECT_TRUE(EgressFilter({wildcard}).is_allowed("https://example.com/"));
  EXPECT_FALSE(EgressFilter({wildcard}).is_allowed("https://xexample.com/"));
}

TEST(EgressFilter, AnExactNameIsNotItsChildren) {
  const EgressFilter filter({rule("Example.com")});
  EXPECT_TRUE(filter.is_allowed("https://EXAMPLE.com"));
  EXPECT_FALSE(filter.is_allowed("https://www.example.com"));
}

TEST(EgressFilter, UrlsThatTwoReadersCouldReadDifferentlyAreRefused) {
  const EgressFilter filter({rule("good.example"), rule("*.good.example")});
  for (const std::string_view url : {std::string_view("https://good.example@evil.example/"),
                                     std::string_view("https://evil.example@good.example/"),
                                     std::string_view("https://good.example\\@evil.example/"),
                                     std::string_view("https://good.example#@evil.example/"),
                                     std::string_view("https://good.example/#x"),
                                     std::string_view("https://good.example./"),
                                     std::string_view("https://good.example%2f.evil.example/"),
                                     std::string_view("https://good.example\0.evil.example/", 33),
                                     std::string_view("https://good.example /"),
                                     std::string_view("https://good.example\t/"),
                                     std::string_view("https://good.example\r\nHost: x"),
                                     std::string_view("https:///good.example"),
                                     std::string_view("https:good.example"),
                                     std::string_view("//good.example"),
                                     std::string_view("good.example/path"),
                                     std::string_view("https://good.example:/"),
                                     std::string_view("https://good.example:0443/"),
                                     std::string_view("https://good.example:99999"),
                                     std::string_view("https://good.example:443:80/"),
                                     std::string_view("https://[::1]/"),
                                     std::string_view("https://127.0.0.1/"),
                                     std::string_view("https://ｇood.example/"),
                                     std::string_view("ht tp://good.example/"),
                                     std::string_view("://good.example"),
                                     std::string_view("1http://good.example"),
                                     std::string_view("file://good.example/etc"),
                                     std::string_view("mailto:a@good.example"),
                                     std::string_view("")}) {
    const EgressDecision decision = filter.check(url);
    EXPECT_FALSE(decision.allowed) << url;
    EXPECT_FALSE(decision.reason.empty());
    EXPECT_TRUE(decision.target.host.empty()) << decision.target.host;
  }
  EXPECT_FALSE(filter.is_allowed("https://good.example/" + std::string(kUrlBytesMax, 'a')));
}

TEST(EgressFilter, SchemesBringTheirPorts) {
  const auto port = [](std::string_view url) {
    const auto target = parse_egress_target(url);
    return target ? int{target->port.value_or(0)} : -1;
  };
  EXPECT_EQ(port("http://a.b"), 80);
  EXPECT_EQ(port("HTTPS://a.b/x"), 443);
  EXPECT_EQ(port("ws://a.b"), 80);
  EXPECT_EQ(port("wss://a.b"), 443);
  EXPECT_EQ(port("ssh://a.b"), 22);
  EXPECT_EQ(port("ftp://a.b"), 21);
  EXPECT_EQ(port("postgres://a.b/db"), 5432);
  EXPECT_EQ(port("postgresql://a.b/db"), 5432);
  EXPECT_EQ(port("mysql://a.b"), 3306);
  EXPECT_EQ(port("redis://a.b"), 6379);
  EXPECT_EQ(port("git://a.b"), 9418);
  EXPECT_EQ(port("https://a.b:8443?q=/@x"), 8443);
  EXPECT_EQ(port("a.b:25"), 25);
  EXPECT_EQ(port("amqp://a.b:5672/"), 5672);
  EXPECT_EQ(port("amqp://a.b/"), -1);
  EXPECT_EQ(port("a.b"), 0);
}

TEST(EgressFilter, PortsAreChecked) {
  const EgressFilter filter({rule("a.example", {443, 8443})});
  EXPECT_TRUE(filter.is_allowed("https://a.example/"));
  EXPECT_TRUE(filter.is_allowed("a.example:8443"));
  const EgressDecision decision = filter.check("http://a.example/");
  EXPECT_FALSE(decision.allowed);
  EXPECT_EQ(decision.reason, "a.example:80: rule 0 (a.example) does not allow this port");
  // A bare host asks for any port, so a rule for some of them is not enough.
  EXPECT_FALSE(filter.is_allowed("a.example"));
  EXPECT_TRUE(EgressFilter({rule("a.example")}).is_allowed("a.example"));
}

TEST(EgressFilter, TheFirstRuleThatMatchesIsNamed) {
  const std::vector<NetworkEgressRule> rules = {rule("a.example", {22}), rule("*.example"),
                                                rule("a.example")};
  const EgressDecision decision = check_egress("https://a.example/v1", rules);
  EXPECT_TRUE(decision.allowed);
  EXPECT_EQ(decision.rule_index, 1U);
  EXPECT_EQ(decision.target, (EgressTarget{"a.example", 443}));
  EXPECT_EQ(to_string(decision), "allowed: a.example:443: rule 1 (*.example)");
}

TEST(EgressFilter, ARuleThatIsNotValidMatchesNothing) {
  const EgressFilter filter({rule(""), rule("*"), rule("127.0.0.1"), rule("a.example.")});
  EXPECT_FALSE(filter.is_allowed("https://a.example/"));
  EXPECT_FALSE(filter.is_allowed("https://127.0.0.1/"));
  EXPECT_FALSE(filter.allows_name(""));
}

TEST(EgressFilter, TheResolverLearnsNamesOnly) {
  const EgressFilter filter({rule("*.example", {443})});
  EXPECT_TRUE(filter.allows_name("a.example"));
  EXPECT_FALSE(filter.allows_name("example"));
  EXPECT_FALSE(filter.allows_name("other"));
}

}  // namespace
}  // namespace caisson::policy
