#include "egress/wire/decision.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace caisson::egress {
namespace {

using policy::NetworkEgressRule;

HostName host(std::string_view text) { return *HostName::parse(text); }
IpAddress ip(std::string_view text) { return *IpAddress::parse(text); }

NetworkEgressRule rule(std::string domain, std::vector<std::uint16_t> ports = {}) {
  NetworkEgressRule out;
  out.domain = std::move(domain);
  out.ports = std::move(ports);
  return out;
}
Rules rules(std::vector<NetworkEgressRule> wanted) {
  auto compiled = Rules::compile(std::move(wanted));
  EXPECT_TRUE(compiled) << compiled.error().message;
  return compiled ? *compiled : Rules();
}
Request to(std::string_view name, std::uint16_t port = 443, FirstBytes first = OtherSeen{}) {
  return {Identity::Confirmed, host(name), port, Sight::Opaque, std::move(first)};
}
Resolved at(std::vector<std::string_view> addresses) {
  Resolved out{Resolution::Answered, {}};
  for (const std::string_view text : addresses) out.addresses.push_back(ip(text));
  return out;
}
TlsSeen hello(std::optional<std::string_view> name, bool hidden = false) {
  TlsSeen out;
  if (name) out.hello.server_name = host(*name);
  out.hello.encrypted_hello = hidden;
  return out;
}
void expect_denied(const Verdict& verdict, Reason reason) {
  EXPECT_EQ(verdict.outcome, Outcome::Deny) << verdict.text;
  EXPECT_EQ(to_string(verdict.reason), to_string(reason)) << verdict.text;
  EXPECT_FALSE(verdict.text.empty());
  EXPECT_TRUE(verdict.addresses.empty());
}

const Resolved kPublic = at({"93.184.216.34"});

TEST(Decision, NobodyUnknownAndNobodyElse) {
  const Rules open = rules({rule("a.example")});
  Request request = to("a.example");
  request.identity = Identity::Unknown;
  expect_denied(decide(request, open, kPublic), Reason::NotIdentified);
  request.identity = Identity::Other;
  expect_denied(decide(request, open, kPublic), Reason::OtherSandbox);
  expect_denied(decide(Request{}, open, kPublic), Reason::NotIdentified);
}

TEST(Decision, AnAddressIsNoName) {
  const Rules open = rules({rule("a.example")});
  Request request = to("a.example");
  request.host = ip("93.184.216.34");
  expect_denied(decide(request, open, kPublic), Reason::AddressLiteral);
  request.host = HostFault::AddressLiteral;
  expect_denied(decide(request, open, kPublic), Reason::AddressLiteral);
  request.host = TargetRefusal{TargetFault::Host, HostFault::AddressLiteral};
  expect_denied(decide(request, open, kPublic), Reason::AddressLiteral);
  request.host = HostFault::NulByte;
  expect_denied(decide(request, open, kPublic), Reason::BadTarget);
  request.host = TargetRefusal{TargetFault::Userinfo, std::nullopt};
  expect_denied(decide(request, open, kPublic), Reason::BadTarget);
  expect_denied(decide(to("a.example", 0), open, kPublic), Reason::BadPort);
}

TEST(Decision, NoRuleNoConnection) {
  expect_denied(decide(to("a.example"), Rules(), kPublic), Reason::NoRules);
  const Rules some = rules({rule("a.example", {443}), rule("*.b.example")});
  for (const char* name :
       {"b.example", "xa.example", "a.example.evil", "x.a.example", "xb.example"}) {
    expect_denied(decide(to(name), some, kPublic), Reason::NoRuleForHost);
  }
  const Verdict port = decide(to("a.example", 80), some, kPublic);
  expect_denied(port, Reason::PortNotAllowed);
  EXPECT_EQ(port.rule_index, 0U);
  EXPECT_EQ(to_string(port), "denied: a.example:80: rule 0 (a.example) does not allow this port");
}

TEST(Decision, OneForbiddenAddressCondemnsTheSet) {
  const Rules open = rules({rule("a.example")});
  for (const char* bad :
       {"127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:169.254.169.254", "fd00::1",
        "64:ff9b::10.0.0.1", "2002:7f00:1::", "0.0.0.0", "224.0.0.1", "198.18.1.0", "100.64.0.1"}) {
    expect_denied(decide(to("a.example"), open, at({bad})), Reason::ForbiddenAddress);
    expect_denied(decide(to("a.example"), open, at({"8.8.8.8", bad})), Reason::ForbiddenAddress);
    expect_denied(decide(to("a.example"), open, at({bad, "8.8.8.8"})), Reason::ForbiddenAddress);
  }
  const Verdict verdict = decide(to("a.example"), open, at({"::ffff:169.254.169.254"}));
  EXPECT_EQ(verdict.text,
            "a.example: its address 169.254.169.254 (metadata service) inside "
            "::ffff:169.254.169.254 is not public, and rule 0 (a.example) does not grant it");
  expect_denied(decide(to("a.example"), open, at({})), Reason::NoAddress);
  expect_denied(decide(to("a.example"), open, {Resolution::NoSuchName, {}}), Reason::NoSuchName);
  expect_denied(decide(to("a.example"), open, {Resolution::Failed, {}}), Reason::ResolverFailed);
  Resolved many{Resolution::Answered, {}};
  many.addresses.assign(kResolvedAddressesMax, ip("8.8.8.8"));
  EXPECT_TRUE(decide(to("a.example"), open, many).allowed());
  many.addresses.push_back(ip("8.8.8.8"));
  expect_denied(decide(to("a.example"), open, many), Reason::TooManyAddresses);
}

TEST(Decision, AGrantIsForOneNameAndOneAddress) {
  NetworkEgressRule inner = rule("db.example");
  inner.granted_addresses = {"10.0.0.5", "::1"};
  const Rules granted = rules({inner, rule("a.example")});
  EXPECT_TRUE(decide(to("db.example"), granted, at({"10.0.0.5"})).allowed());
  EXPECT_TRUE(decide(to("db.example"), granted, at({"::ffff:10.0.0.5", "8.8.8.8"})).allowed());
  expect_denied(decide(to("db.example"), granted, at({"10.0.0.6"})), Reason::ForbiddenAddress);
  expect_denied(decide(to("db.example"), granted, at({"10.0.0.5", "127.0.0.1"})),
                Reason::ForbiddenAddress);
  expect_denied(decide(to("a.example"), granted, at({"10.0.0.5"})), Reason::ForbiddenAddress);
  for (const char* bad : {"0.0.0.0", "224.0.0.1", "255.255.255.255", "10.0.0.0/8", "127.1", ""}) {
    inner.granted_addresses = {bad};
    const auto compiled = Rules::compile({inner});
    ASSERT_FALSE(compiled) << bad;
    EXPECT_EQ(compiled.error().field, "network_egress_rules[0].granted_addresses");
  }
  inner.domain = "*.example";
  inner.granted_addresses = {"10.0.0.5"};
  EXPECT_FALSE(Rules::compile({inner}));
}

TEST(Decision, TheHelloAsksForTheSameHostAndHidesNone) {
  const Rules open = rules({rule("a.example"), rule("b.example")});
  const auto with = [&](FirstBytes first) {
    return decide(to("a.example", 443, std::move(first)), open, kPublic);
  };
  expect_denied(with(hello("b.example")), Reason::ServerNameOther);
  expect_denied(with(hello(std::nullopt)), Reason::ServerNameMissing);
  expect_denied(with(hello("a.example", true)), Reason::EncryptedHello);
  expect_denied(with(TlsRefused{HelloFault::BadServerName}), Reason::BadHello);
  const Verdict allowed = with(hello("A.example"));
  EXPECT_TRUE(allowed.allowed()) << allowed.text;
  EXPECT_EQ(allowed.rule_index, 0U);
  EXPECT_EQ(to_string(allowed), "allowed: a.example:443: rule 0 (a.example)");
  // The order of the steps: a forbidden address is named before a wrong hello.
  expect_denied(decide(to("a.example", 443, hello("b.example")), open, at({"127.0.0.1"})),
                Reason::ForbiddenAddress);
}

TEST(Decision, HttpNamesTheSameHost) {
  const Rules open = rules({rule("a.example")});
  HttpSeen http{"GET", "/", TargetRefusal{TargetFault::HostFieldOther, std::nullopt}};
  expect_denied(decide(to("a.example", 80, http), open, kPublic), Reason::HostField);
  // Known to be wrong: nobody is asked about the name.
  expect_denied(decide(to("a.example", 80, http), open, {}), Reason::HostField);
  http.host_field.reset();
  EXPECT_TRUE(decide(to("a.example", 80, http), open, kPublic).allowed());
}

TEST(Decision, MethodsAndPathsWhereTheyAreSeen) {
  NetworkEgressRule api = rule("a.example");
  api.methods = {"GET", "HEAD"};
  api.path_prefixes = {"/v1", "/files/"};
  const Rules limited = rules({api});
  const auto with = [&](std::string method, std::string path) {
    return decide(to("a.example", 80, HttpSeen{std::move(method), std::move(path), {}}), limited,
                  kPublic);
  };
  expect_denied(with("POST", "/v1/x"), Reason::MethodNotAllowed);
  expect_denied(with("get", "/v1/x"), Reason::MethodNotAllowed);
  expect_denied(with("GET", "/v10"), Reason::PathNotAllowed);
  expect_denied(with("GET", "/files"), Reason::PathNotAllowed);
  expect_denied(with("GET", "/?/v1/"), Reason::PathNotAllowed);
  expect_denied(with("GET", "/v1/../admin"), Reason::PathAmbiguous);
  expect_denied(with("GET", "/v1/%2e%2e/admin"), Reason::PathAmbiguous);
  for (const char* path : {"/v1", "/v1/", "/v1/x?y", "/v1?x=/../", "/files/a"}) {
    EXPECT_TRUE(with("GET", path).allowed()) << path;
  }
  // A tunnel that we cannot read is not a way around them.
  expect_denied(decide(to("a.example", 443, hello("a.example")), limited, kPublic),
                Reason::HttpNotSeen);
  expect_denied(decide(to("a.example", 443, NothingSeen{}), limited, {}), Reason::HttpNotSeen);
  Request readable = to("a.example", 443, hello("a.example"));
  readable.sight = Sight::Readable;
  expect_denied(decide(readable, limited, kPublic), Reason::HttpNotSeen);
  readable.first = OtherSeen{};
  expect_denied(decide(readable, limited, kPublic), Reason::HttpNotSeen);
}

TEST(Decision, RulesThatLookIntoTls) {
  NetworkEgressRule inspected = rule("a.example", {});
  inspected.inspect = true;
  inspected.methods = {"GET"};
  const Rules judged = rules({inspected});
  Request request = to("a.example", 443, hello("a.example"));
  expect_denied(decide(request, judged, kPublic), Reason::HttpNotSeen);  // nobody will read it
  request.sight = Sight::Readable;
  EXPECT_TRUE(decide(request, judged, kPublic).allowed());
  request.first = OtherSeen{};
  expect_denied(decide(request, judged, kPublic), Reason::HttpNotSeen);
}

TEST(Decision, ASecretGoesByVerifiedTlsOnly) {
  NetworkEgressRule secret = rule("a.example", {});
  secret.inject = {{"X-Key", "key", ""}};
  // The second would let it pass without the secret: it is not asked.
  const Rules judged = rules({secret, rule("a.example", {})});
  Request request = to("a.example", 80, HttpSeen{"GET", "/", std::nullopt});
  request.sight = Sight::Readable;
  expect_denied(decide(request, judged, kPublic), Reason::NeedsTls);
  request.verified = true;
  const Verdict verdict = decide(request, judged, kPublic);
  EXPECT_TRUE(verdict.allowed());
  EXPECT_EQ(verdict.rule_index, 0U);
}

TEST(Decision, ATokenNarrowsAndNeverWidens) {
  const Rules judged = rules({rule("a.example", {}), rule("b.example", {})});
  const auto within = std::make_shared<std::vector<NetworkEgressRule>>();
  within->push_back(rule("a.example", {}));
  within->push_back(rule("c.example", {}));
  const auto ask = [&](const char* host) {
    Request request = to(host, 80, HttpSeen{"GET", "/", std::nullopt});
    request.within = within;
    return decide(request, judged, kPublic);
  };
  EXPECT_TRUE(ask("a.example").allowed());
  expect_denied(ask("b.example"), Reason::NoRuleForHost);
  expect_denied(ask("c.example"), Reason::NoRuleForHost);
  within->clear();
  expect_denied(ask("a.example"), Reason::NoRuleForHost);
}

TEST(Decision, TheFirstRuleThatFitsIsNamed) {
  NetworkEgressRule reads = rule("*.example", {80});
  reads.methods = {"GET"};
  const Rules mixed = rules({rule("a.example", {22}), reads, rule("a.example")});
  const Verdict get = decide(to("a.example", 80, HttpSeen{"GET", "/", {}}), mixed, kPublic);
  EXPECT_TRUE(get.allowed());
  EXPECT_EQ(get.rule_index, 1U);
  const Verdict post = decide(to("a.example", 80, HttpSeen{"POST", "/", {}}), mixed, kPublic);
  EXPECT_EQ(post.rule_index, 2U);
  NetworkEgressRule apex = rule("*.b.example");
  apex.apex = policy::Apex::Included;
  EXPECT_TRUE(decide(to("b.example"), rules({apex}), kPublic).allowed());
}

// A default is for the hosts that nobody named: what a rule limits, it does not open again.
TEST(Decision, ADefaultIsNoWayAroundARule) {
  NetworkEgressRule reads = rule("a.example", {80, 443});
  reads.methods = {"GET"};
  reads.inspect = true;
  NetworkEgressRule deletes = rule("*.example");
  deletes.methods = {"DELETE"};
  deletes.inspect = true;
  NetworkEgressRule everywhere = rule("*");
  everywhere.every_name = everywhere.otherwise = true;
  const Rules open = rules({reads, deletes, everywhere});
  const auto with = [&](std::string_view name, std::string method, std::uint16_t port = 80) {
    return decide(to(name, port, HttpSeen{std::move(method), "/", {}}), open, kPublic);
  };
  const Verdict post = with("a.example", "POST");
  expect_denied(post, Reason::MethodNotAllowed);
  EXPECT_EQ(post.rule_index, 0U);
  expect_denied(with("b.example", "GET"), Reason::MethodNotAllowed);
  expect_denied(with("a.example", "GET", 8080), Reason::MethodNotAllowed);
  expect_denied(decide(to("a.example", 22), rules({rule("a.example", {443}), everywhere}), kPublic),
                Reason::PortNotAllowed);
  expect_denied(decide(to("a.example", 443, OtherSeen{}), open, kPublic), Reason::HttpNotSeen);
  Request opaque = to("a.example", 443, hello("a.example"));
  expect_denied(decide(opaque, open, kPublic), Reason::HttpNotSeen);
  // Each rule that names the host counts, and the default for every other.
  EXPECT_EQ(with("a.example", "GET").rule_index, 0U);
  EXPECT_EQ(with("a.example", "DELETE").rule_index, 1U);
  EXPECT_EQ(with("a.example", "DELETE", 8080).rule_index, 1U);
  EXPECT_EQ(with("c.test", "POST").rule_index, 2U);
  EXPECT_TRUE(decide(to("c.test", 22, OtherSeen{}), open, kPublic).allowed());
  expect_denied(decide(to("c.test"), open, at({"10.0.0.1"})), Reason::ForbiddenAddress);
  EXPECT_TRUE(decide_name(host("a.example"), open).allowed());
  everywhere.otherwise = false;
  EXPECT_EQ(
      decide(to("a.example", 80, HttpSeen{"POST", "/", {}}), rules({reads, everywhere}), kPublic)
          .rule_index,
      1U)
      << "a rule that is no default";
}

TEST(Decision, ItSaysWhatItNeedsNext) {
  const Rules open = rules({rule("a.example")});
  const Verdict resolve = decide(to("a.example", 443, NothingSeen{}), open, {});
  EXPECT_EQ(resolve.outcome, Outcome::NeedAddresses);
  EXPECT_EQ(resolve.reason, Reason::MoreIsNeeded);
  EXPECT_EQ(resolve.rule_index, 0U);
  EXPECT_TRUE(resolve.addresses.empty());
  const Verdict look = decide(to("a.example", 443, NothingSeen{}), open, at({"::ffff:8.8.8.8"}));
  EXPECT_EQ(look.outcome, Outcome::NeedFirstBytes);
  EXPECT_EQ(look.addresses, std::vector{ip("8.8.8.8")});
  EXPECT_FALSE(look.allowed());
}

TEST(Decision, NamesForTheResolver) {
  const Rules some = rules({rule("*.b.example", {443})});
  EXPECT_TRUE(decide_name(host("x.b.example"), some).allowed());
  EXPECT_TRUE(some.names(host("x.b.example")));
  expect_denied(decide_name(host("b.example"), some), Reason::NoRuleForHost);
  EXPECT_FALSE(some.names(host("b.example")));
  expect_denied(decide_name(host("b.example"), Rules()), Reason::NoRules);
}

TEST(Decision, WhatIsSpentIsRefusedWithItsRule) {
  NetworkEgressRule small = rule("a.example");
  small.rate_limit_per_min = 2;
  small.max_bytes = 1000;
  const Rules limited = rules({small});
  const Verdict fine = decide(to("a.example"), limited, kPublic);
  const Verdict rate = over_rate(fine, limited, seconds(30));
  expect_denied(rate, Reason::RateLimited);
  EXPECT_EQ(rate.text, "rule 0 (a.example): 2 requests a minute are spent; the next in 30000 ms");
  expect_denied(over_bytes(fine, limited), Reason::BytesSpent);
  const Verdict denied = decide(to("b.example"), limited, kPublic);
  expect_denied(over_rate(denied, limited, seconds(1)), Reason::NoRuleForHost);
}

}  // namespace
}  // namespace caisson::egress
