// Clients that leave at any moment, hosts that close early, rules that change meanwhile: in the end
// nothing is open, and everything that was let through has been told to have ended.
#include <fmt/format.h>

#include <random>

#include "egress/gate/inside_test.h"

namespace caisson::egress::test {

namespace {

// One client's behaviour, chosen by a number.
void behave(unsigned what, std::uint16_t port) {
  RawClient client(kProxyPort);
  const std::string target = fmt::format("good.example:{}", port);
  const std::string post = fmt::format(
      "POST http://{0}/ HTTP/1.1\r\nHost: {0}\r\nContent-Length: 1000000\r\n\r\n", target);
  switch (what % 10) {
    case 0:
      client.ask(get("good.example", port));
      break;
    case 1:
      client.send(get("good.example", port));  // and gone
      break;
    case 2:
      client.send("GET http://good.ex");
      break;
    case 3:
      client.ask(connect_line(target));
      client.send(hello_for("good.example").substr(0, 20));
      break;
    case 4:
      if (client.ask(connect_line(target)).status != 200) break;  // no rules just now
      client.send(hello_for("evil.example"));
      client.closed();
      break;
    case 5:
      client.send(post + std::string(what % 200'000, 'x'));
      break;
    case 6:
      client.send(post + std::string(1'000'000, 'x'));
      client.reply();
      break;
    case 7:
      client.ask(connect_line(target));
      client.send(std::string(what % 100'000, '\x01'));
      client.finish();
      client.more();
      break;
    case 8: {
      client.ask(connect_line(target));
      client.send(std::string(50'000, '\x01'));
      const linger hard{1, 0};
      (void)::setsockopt(client.fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
      break;
    }
    default:
      client.send(get("good.example", port) + get("evil.example", port) + connect_line(target));
      client.reply();
      break;
  }
}

}  // namespace

TEST(GateChaos, NothingIsLeft) {
  NEEDS_INSIDE();
  std::atomic<unsigned> number = 0;
  Host host([&](RawClient& client) {
    const unsigned n = number++;
    client.more();
    if (n % 3 == 0) return;  // without a word
    client.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
    client.send(std::string(n % 2 == 0 ? 100'000 : 40'000, 'y'));
    if (n % 10 == 0) (void)client.rest();
  });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t + 1);
      for (int i = 0; i < 60; ++i) behave(static_cast<unsigned>(random()), host.port());
    });
  }
  for (int i = 0; i < 30; ++i) {
    inside.replace(i % 3 == 2 ? std::vector<policy::NetworkEgressRule>{}
                              : std::vector{rule("good.example", host.port())});
  }
  inside.replace({rule("good.example", host.port())});
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(inside.loop.wait_until([&] { return inside.gate->counts().open == 0; }))
      << inside.counts().open;
  std::uint64_t up = 0;
  std::uint64_t down = 0;
  for (const Farewell& words : inside.farewells()) {
    up += words.bytes_up;
    down += words.bytes_down;
  }
  EXPECT_EQ(up, inside.counts().bytes_up);
  EXPECT_EQ(down, inside.counts().bytes_down);
}

}  // namespace caisson::egress::test
