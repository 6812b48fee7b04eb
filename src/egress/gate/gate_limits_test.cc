// Every limit of a gate, reached.
#include <fmt/format.h>

#include <limits>

#include "egress/gate/dial.h"
#include "egress/gate/http_relay.h"
#include "egress/gate/inside_test.h"
#include "egress/wire/synthetic.h"

namespace caisson::egress::test {

TEST(GateLimits, HugeAndSlowHeads) {
  NEEDS_INSIDE();
  Inside::Options options;
  options.times.head = milliseconds(200);
  options.times.first = milliseconds(200);
  Inside inside({rule("good.example", 80)}, options);
  EXPECT_EQ(inside.ask("GET http://good.example/" + std::string(20'000, 'a')).status, 414U);
  EXPECT_EQ(
      inside.ask("GET http://good.example/ HTTP/1.1\r\nX: " + std::string(40'000, 'a')).status,
      431U);
  std::string many = "GET http://good.example/ HTTP/1.1\r\n";
  for (int i = 0; i < 200; ++i) many += fmt::format("X{}: y\r\n", i);
  EXPECT_EQ(inside.ask(many).status, 431U);
  EXPECT_EQ(inside.ask("GET http://good.example/ HT").status, 408U);
  // Nothing at all, and half a greeting of SOCKS: closed without a word.
  EXPECT_TRUE(inside.proxy().closed());
  RawClient socks = inside.proxy();
  socks.send("\x05");
  EXPECT_TRUE(socks.closed());
}

TEST(GateLimits, FloodOfConnections) {
  NEEDS_INSIDE();
  Inside inside({rule("good.example", 80)});
  std::vector<RawClient> clients;
  for (std::size_t i = 0; i < kGateConnectionsMax; ++i) clients.push_back(inside.proxy());
  ASSERT_TRUE(
      inside.loop.wait_until([&] { return inside.gate->counts().open == kGateConnectionsMax; }));
  EXPECT_TRUE(inside.proxy().closed());
  clients.clear();
  ASSERT_TRUE(inside.loop.wait_until([&] { return inside.gate->counts().open == 0; }));
  EXPECT_EQ(inside.ask(get("evil.example", 80)).status, 403U);
}

TEST(GateLimits, FirstBytesThatNeverEnd) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) { (void)client.rest(); });
  Inside::Options options;
  options.times.first = milliseconds(200);
  Inside inside({rule("good.example", host.port())}, options);
  inside.names.set("good.example", {"127.0.0.1"});
  for (const std::string& first :
       {std::string("\x16\x03\x01\x02"), std::string("GET"), std::string("WORD")}) {
    RawClient client = inside.proxy();
    EXPECT_EQ(client.ask(connect_line(fmt::format("good.example:{}", host.port()))).status, 200U);
    client.send(first);
    EXPECT_TRUE(client.closed());
  }
  ASSERT_TRUE(inside.wait_farewells(3));
  for (const Farewell& words : inside.farewells()) EXPECT_EQ(words.bytes_up, 0U);
}

TEST(GateLimits, RequestsPerMinute) {
  NEEDS_INSIDE();
  Host host(echo_heads());
  auto slow = rule("good.example", host.port());
  slow.rate_limit_per_min = 3;
  Inside inside({slow});
  inside.names.set("good.example", {"127.0.0.1"});
  RawClient client = inside.proxy();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.ask(get("good.example", host.port())).status, 200U);
  }
  const auto reply = client.ask(get("good.example", host.port()));
  EXPECT_EQ(reply.status, 429U);
  EXPECT_TRUE(reply.has("Retry-After: "));
  EXPECT_EQ(inside.ask(connect_line(fmt::format("good.example:{}", host.port()))).status, 429U);
  EXPECT_EQ(inside.passages().back().verdict.reason, Reason::RateLimited);
}

TEST(GateLimits, BytesOfARule) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) {
    (void)client.take(1);
    client.send(std::string(100'000, 'x'));
    (void)client.rest();
  });
  auto small = rule("good.example", host.port());
  small.max_bytes = 10'000;
  Inside inside({small});
  inside.names.set("good.example", {"127.0.0.1"});
  RawClient client = inside.proxy();
  EXPECT_EQ(client.ask(connect_line(fmt::format("good.example:{}", host.port()))).status, 200U);
  client.send(std::string_view("\x01", 1));
  EXPECT_LE(client.rest().size(), 9'999U);
  ASSERT_TRUE(inside.wait_farewells(1));
  const Farewell words = inside.farewells()[0];
  EXPECT_EQ(words.bytes_up + words.bytes_down, 10'000U);
  // For the sandbox's life, and also when the same rule is set again.
  inside.replace({small});
  EXPECT_EQ(inside.ask(get("good.example", host.port())).status, 403U);
  EXPECT_EQ(inside.passages().back().verdict.reason, Reason::BytesSpent);
}

TEST(GateLimits, ReplacedRulesCloseConnections) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) { (void)client.rest(); });
  Host echo(echo_heads());
  Inside inside({rule("good.example", host.port()), rule("kept.example", echo.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  inside.names.set("kept.example", {"127.0.0.1"});
  RawClient tunnel = inside.proxy();
  EXPECT_EQ(tunnel.ask(connect_line(fmt::format("good.example:{}", host.port()))).status, 200U);
  RawClient kept = inside.proxy();
  EXPECT_EQ(kept.ask(get("kept.example", echo.port())).status, 200U);
  inside.replace({rule("kept.example", echo.port())});
  EXPECT_TRUE(tunnel.closed());
  EXPECT_EQ(kept.ask(get("kept.example", echo.port())).status, 200U);
  EXPECT_EQ(Inside::look_up("good.example").rcode, 3);
  // A rule that now speaks of paths cannot be held on a connection that hides them.
  inside.replace({});
  EXPECT_TRUE(kept.closed());
}

TEST(GateLimits, HostThatNeverAnswers) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) { (void)client.rest(); });
  Inside::Options options;
  options.times.answer = milliseconds(200);
  Inside inside({rule("good.example", host.port())}, options);
  inside.names.set("good.example", {"127.0.0.1"});
  EXPECT_EQ(inside.ask(get("good.example", host.port())).status, 504U);
}

TEST(GateLimits, QuietConnection) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) { (void)client.rest(); });
  Inside::Options options;
  options.times.quiet = milliseconds(200);
  Inside inside({rule("good.example", host.port())}, options);
  inside.names.set("good.example", {"127.0.0.1"});
  RawClient client = inside.proxy();
  EXPECT_EQ(client.ask(connect_line(fmt::format("good.example:{}", host.port()))).status, 200U);
  client.send(std::string_view("\x01", 1));
  EXPECT_TRUE(client.closed());
}

TEST(GateLimits, NameQueries) {
  NEEDS_INSIDE();
  Inside inside({rule("good.example", 80)});
  RawClient client(kResolverPort);
  // Query after query on one connection, until the bucket is empty and it is closed.
  std::string query = std::string("\0\x1d\x12\x34\x01\0\0\x01\0\0\0\0\0\0", 14) +
                      "\x04"
                      "evil"
                      "\x07"
                      "example";
  query += std::string("\0\0\x01\0\x01", 5);
  query[1] = static_cast<char>(query.size() - 2);
  bool refused = false;
  for (std::int64_t i = 0; i < 3 * 6000 && !refused; ++i) {
    if (!client.send(query)) break;
    const std::string size = client.take(2);
    refused = size.size() < 2;
    if (!refused) (void)client.take(static_cast<unsigned char>(size[1]));
  }
  EXPECT_TRUE(refused);
}

TEST(GateLimits, NamesOfAWildcard) {
  NEEDS_INSIDE();
  Inside inside({rule("*.good.example", 80)});
  for (std::size_t i = 0; i < kSyntheticNamesMax; ++i) {
    ASSERT_EQ(Inside::look_up(fmt::format("n{}.good.example", i)).addresses.size(), 1U);
  }
  const auto full = Inside::look_up("more.good.example");
  EXPECT_EQ(full.rcode, 2);
  EXPECT_TRUE(full.addresses.empty());
  EXPECT_EQ(Inside::look_up("n0.good.example").addresses[0], "198.18.1.0");
}

TEST(GateLimits, AddressesThatAreTried) {
  NEEDS_INSIDE();
  const auto ask = [](std::size_t listening) {
    auto many = rule("good.example");
    many.granted_addresses.clear();
    for (std::size_t i = 1; i <= kDialAddressesMax + 1; ++i) {
      many.granted_addresses.push_back(fmt::format("127.0.1.{}", i));
    }
    Host host(echo_heads(), 0, many.granted_addresses[listening - 1]);
    Inside inside({many});
    inside.names.set("good.example", many.granted_addresses);
    return inside.ask(get("good.example", host.port())).status;
  };
  EXPECT_EQ(ask(kDialAddressesMax), 200U);
  EXPECT_EQ(ask(kDialAddressesMax + 1), 502U);
}

TEST(GateLimits, HeadsOfAnswers) {
  NEEDS_INSIDE();
  std::string interim;
  for (int i = 0; i <= kInterimAnswersMax; ++i) interim += "HTTP/1.1 102 Processing\r\n\r\n";
  const std::string last = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  const std::string huge =
      "HTTP/1.1 200 OK\r\nX: " + std::string(kAnswerHeadBytesMax, 'x') + "\r\n\r\n";
  for (const std::string& bytes : {interim + last, huge}) {
    Host host([&](RawClient& client) {
      if (client.until("\r\n\r\n").empty()) return;
      client.send(bytes);
      (void)client.rest();
    });
    Inside inside({rule("good.example", host.port())});
    inside.names.set("good.example", {"127.0.0.1"});
    RawClient client = inside.proxy();
    client.send(get("good.example", host.port(), "/", "Connection: close\r\n"));
    EXPECT_NE(client.rest().find("HTTP/1.1 502"), std::string::npos);
  }
}

TEST(GateLimits, CloseEndsEverything) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) { (void)client.rest(); });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  RawClient client = inside.proxy();
  EXPECT_EQ(client.ask(connect_line(fmt::format("good.example:{}", host.port()))).status, 200U);
  inside.loop.on_thread([&] { inside.gate->close(); });
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(inside.farewells().size(), 1U);
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const KernelAddress to = to_kernel(IpAddress::v4({127, 0, 0, 1}), kProxyPort);
  EXPECT_NE(::connect(fd.get(), to.get(), to.size), 0);
}

}  // namespace caisson::egress::test
