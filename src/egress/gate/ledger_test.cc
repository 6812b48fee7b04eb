#include "egress/gate/ledger.h"

#include <gtest/gtest.h>

#include <limits>

#include "egress/gate/arrival.h"
#include "egress/gate/inside_test.h"
#include "egress/gate/refused_names.h"

namespace caisson::egress::test {

namespace {

Rules compile(std::vector<policy::NetworkEgressRule> rules) {
  auto out = Rules::compile(std::move(rules));
  EXPECT_TRUE(out) << out.error().message;
  return std::move(*out);
}

Verdict under(std::size_t index) {
  Verdict verdict;
  verdict.outcome = Outcome::NeedAddresses;
  verdict.rule_index = index;
  return verdict;
}

}  // namespace

TEST(Ledger, SpentStaysSpentWithTheRule) {
  auto a = rule("a.example", 80);
  a.max_bytes = 100;
  auto b = rule("b.example", 80);
  b.rate_limit_per_min = 1;
  const TimePoint now{};
  Ledger ledger(compile({a, b}), now);
  ledger.spend(0, 60);
  EXPECT_EQ(ledger.allowance(0), 40U);
  EXPECT_EQ(ledger.allowance(1), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(ledger.take(under(1), now).outcome, Outcome::NeedAddresses);
  EXPECT_EQ(ledger.take(under(1), now).reason, Reason::RateLimited);
  ledger.replace(compile({b, a}), now);
  EXPECT_EQ(ledger.allowance(1), 40U);
  EXPECT_EQ(ledger.take(under(0), now).reason, Reason::RateLimited);
  ledger.spend(1, 60);
  EXPECT_EQ(ledger.allowance(1), 0U);
  EXPECT_EQ(ledger.take(under(1), now).reason, Reason::BytesSpent);
  EXPECT_EQ(ledger.allowance(7), 0U);  // a rule that is not there gives nothing
}

TEST(Arrival, ByAddressAlone) {
  const auto at = [](const char* address, std::uint16_t port) {
    return arrival_at({*IpAddress::parse(address), port}).role;
  };
  EXPECT_EQ(at("127.0.0.1", kProxyPort), Role::Proxy);
  EXPECT_EQ(at("::1", kSocksPort), Role::Proxy);
  EXPECT_EQ(at("127.0.0.1", kResolverPort), Role::Resolver);
  EXPECT_EQ(at("127.0.0.1", 80), Role::Stranger);
  EXPECT_EQ(at("198.18.1.0", kProxyPort), Role::Transparent);
  EXPECT_EQ(at("198.19.255.255", 1), Role::Transparent);
  EXPECT_EQ(at("fd63:6169:7373:6f6e::100", 443), Role::Transparent);
  EXPECT_EQ(at("192.0.2.1", kProxyPort), Role::Stranger);
  EXPECT_EQ(at("::ffff:127.0.0.1", kProxyPort), Role::Stranger);  // unmapped before it is asked
}

TEST(Arrival, OneMorePortOfTheProxy) {
  const auto at = [](const char* address, std::uint16_t port) {
    return arrival_at({*IpAddress::parse(address), port}, 15004).role;
  };
  EXPECT_EQ(at("127.0.0.1", 15004), Role::Proxy);
  EXPECT_EQ(at("::1", 15004), Role::Proxy);
  EXPECT_EQ(at("127.0.0.1", kProxyPort), Role::Proxy);
  EXPECT_EQ(at("127.0.0.1", kResolverPort), Role::Resolver);
  EXPECT_EQ(at("198.18.1.0", 15004), Role::Transparent);
  EXPECT_EQ(at("192.0.2.1", 15004), Role::Stranger);
  EXPECT_EQ(at("127.0.0.1", 15005), Role::Stranger);
  EXPECT_EQ(at("127.0.0.1", 0), Role::Stranger);
  EXPECT_EQ(arrival_at({*IpAddress::parse("127.0.0.1"), 0}).role, Role::Stranger);
}

TEST(RefusedNames, FoldsWithinASecondAndIsBounded) {
  boost::asio::io_context context;
  RefusedNames names(context.get_executor());
  const TimePoint start{};
  EXPECT_TRUE(names.is_new("a", start));
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(names.is_new("a", start));
  std::uint32_t told = 0;
  const auto tell = [&](const std::string&, std::uint32_t times) { told += times; };
  names.flush(start, tell);
  EXPECT_EQ(told, 0U);
  names.flush(start + seconds(1), tell);
  EXPECT_EQ(told, 9U);
  EXPECT_TRUE(names.empty());
  for (std::size_t i = 0; i < kRefusedNamesMax; ++i)
    EXPECT_TRUE(names.is_new(std::to_string(i), start));
  EXPECT_TRUE(names.is_new("one more", start));
  EXPECT_TRUE(names.is_new("one more", start));  // not remembered, so told each time
}

}  // namespace caisson::egress::test
