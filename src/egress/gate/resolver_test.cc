#include "egress/gate/resolver.h"

#include <fmt/format.h>

#include <algorithm>

#include "egress/gate/dns_exchange.h"
#include "egress/gate/inside_test.h"

namespace caisson::egress::test {

namespace {

HostName host(const std::string& text) { return *HostName::parse(text); }

struct Asking {
  explicit Asking(int rounds = 1)
      : resolver(Resolver::make(loop.context.get_executor(),
                                {{Names::server()}, milliseconds(200), rounds})) {}
  Resolved ask(const std::string& name) {
    return loop.run<Resolved>([&] { return resolver->resolve(host(name)); });
  }
  ResolverCounts counts() {
    ResolverCounts out;
    loop.on_thread([&] { out = resolver->counts(); });
    return out;
  }
  Names names;
  Loop loop;
  std::shared_ptr<Resolver> resolver;
};

}  // namespace

TEST(Resolver, BothFamiliesAndTheCache) {
  NEEDS_INSIDE();
  Asking asking;
  asking.names.set("a.example", {"192.0.2.1", "2001:db8::1", "192.0.2.2"});
  for (int i = 0; i < 3; ++i) {
    const Resolved found = asking.ask("a.example");
    ASSERT_EQ(found.state, Resolution::Answered);
    ASSERT_EQ(found.addresses.size(), 3U);
    EXPECT_EQ(to_string(found.addresses[0]), "192.0.2.1");
    EXPECT_EQ(to_string(found.addresses[2]), "2001:db8::1");
  }
  EXPECT_EQ(asking.names.asked().size(), 2U);  // A and AAAA, once
  EXPECT_EQ(asking.counts().found, 2U);
}

TEST(Resolver, NoSuchNameIsKnownForAWhile) {
  NEEDS_INSIDE();
  Asking asking;
  EXPECT_EQ(asking.ask("none.example").state, Resolution::NoSuchName);
  EXPECT_EQ(asking.ask("none.example").state, Resolution::NoSuchName);
  EXPECT_EQ(asking.names.asked().size(), 2U);
  asking.names.set("empty.example", Names::Answer{});
  const Resolved empty = asking.ask("empty.example");
  EXPECT_EQ(empty.state, Resolution::Answered);
  EXPECT_TRUE(empty.addresses.empty());
}

TEST(Resolver, SilenceIsAFailureAndIsTriedAgain) {
  NEEDS_INSIDE();
  Asking asking(2);
  asking.names.set("a.example", {"192.0.2.1"});
  asking.names.be_silent(true);
  EXPECT_EQ(asking.ask("a.example").state, Resolution::Failed);
  EXPECT_EQ(asking.names.asked().size(), 4U);  // two types, two rounds
  asking.names.be_silent(false);
  EXPECT_EQ(asking.ask("a.example").state, Resolution::Answered);
}

TEST(Resolver, TruncatedAnswersComeByTcp) {
  NEEDS_INSIDE();
  Asking asking;
  asking.names.set("a.example", {"192.0.2.1"});
  asking.names.truncate(true);
  EXPECT_EQ(asking.ask("a.example").addresses.size(), 1U);
  EXPECT_EQ(asking.names.asked_by_tcp(), 2);
}

TEST(Resolver, QueriesInFlightAreJoinedAndBounded) {
  NEEDS_INSIDE();
  Asking asking;
  asking.names.be_silent(true);
  std::atomic<int> failed = 0;
  const auto start = [&](const std::string& name) {
    boost::asio::co_spawn(asking.loop.context, asking.resolver->resolve(host(name)),
                          [&](std::exception_ptr, Resolved found) {
                            if (found.state == Resolution::Failed) ++failed;
                          });
  };
  asking.loop.on_thread([&] {
    for (int i = 0; i < 5; ++i) start("same.example");
    for (std::size_t i = 0; i < kResolverFlightsMax + 10; ++i) start(fmt::format("n{}.example", i));
  });
  const int all = 5 + static_cast<int>(kResolverFlightsMax) + 10;
  EXPECT_TRUE(asking.loop.wait_until([&] { return failed == all; }));
  EXPECT_EQ(asking.counts().joined, 4U);
  EXPECT_EQ(asking.counts().refused, 11U);
}

TEST(Resolver, CacheIsBounded) {
  NEEDS_INSIDE();
  Asking asking;
  for (std::size_t i = 0; i < kResolverCacheMax + 50; i += 50) {
    std::atomic<int> done = 0;
    asking.loop.on_thread([&] {
      for (std::size_t j = i; j < i + 50; ++j) {
        boost::asio::co_spawn(asking.loop.context,
                              asking.resolver->resolve(host(fmt::format("n{}.example", j))),
                              [&](std::exception_ptr, Resolved) { ++done; });
      }
    });
    ASSERT_TRUE(asking.loop.wait_until([&] { return done == 50; }));
  }
  EXPECT_EQ(asking.counts().cached, kResolverCacheMax);
}

// Answers with another id or another question are passed over, and a flood of them ends the wait.
TEST(Resolver, StrayAnswers) {
  NEEDS_INSIDE();
  Loop loop;
  const UniqueFd server = listen_at("127.0.0.1", 0, SOCK_DGRAM);
  std::thread liar([&] {
    for (int query = 0; query < 2; ++query) {
      char packet[512];
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      const ssize_t got = ::recvfrom(server.get(), packet, sizeof packet, 0,
                                     reinterpret_cast<sockaddr*>(&from), &size);
      packet[0] = static_cast<char>(packet[0] ^ 1);
      packet[2] = '\x81';
      for (int i = 0; i < kStrayAnswersMax + 5; ++i) {
        (void)::sendto(server.get(), packet, static_cast<std::size_t>(got), 0,
                       reinterpret_cast<const sockaddr*>(&from), size);
      }
    }
  });
  const auto resolver =
      Resolver::make(loop.context.get_executor(),
                     {{{IpAddress::v4({127, 0, 0, 1}), port_of(server.get())}}, seconds(20), 1});
  EXPECT_EQ(loop.run<Resolved>([&] { return resolver->resolve(host("a.example")); }).state,
            Resolution::Failed);
  liar.join();
}

TEST(Resolver, NoServers) {
  NEEDS_INSIDE();
  Loop loop;
  const auto resolver = Resolver::make(loop.context.get_executor(), {});
  EXPECT_EQ(loop.run<Resolved>([&] { return resolver->resolve(host("a.example")); }).state,
            Resolution::Failed);
}

TEST(ResolvConf, ServersInOrder) {
  const auto servers = read_resolv_conf(
      "# nameserver 9.9.9.9\nsearch x\nnameserver 192.0.2.1\n\tnameserver  2001:db8::1 # x\r\n"
      "nameserver fe80::1%eth0\nnameserver\nnameserver bad\nnameserver 192.0.2.2\n"
      "nameserver 192.0.2.3\n");
  ASSERT_EQ(servers.size(), kNameServersMax);
  EXPECT_EQ(to_string(servers[0].address), "192.0.2.1");
  EXPECT_EQ(to_string(servers[1].address), "2001:db8::1");
  EXPECT_EQ(to_string(servers[2].address), "192.0.2.2");
  EXPECT_TRUE(read_resolv_conf("").empty());
}

}  // namespace caisson::egress::test
