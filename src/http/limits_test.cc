// Each limit of a server is reached here, with small values; time limits are waited for as the
// close that they cause, never by the clock.
#include <atomic>

#include "http/connection.h"
#include "http/loopback_test.h"

namespace caisson::http::test {
namespace {

Limits hasty() {
  Limits limits;
  limits.header_seconds = limits.idle_seconds = limits.stall_seconds = 1;
  return limits;
}

awaitable<void> echo(Exchange& exchange) {
  auto body = co_await read_all(exchange, 1000000);
  if (body) {
    co_await exchange.respond(200, "text/plain", std::move(*body));
  } else {
    const bool late = body.error().code == Errc::TimedOut;
    co_await exchange.respond(late ? 408 : 400, "text/plain", body.error().message);
  }
}

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

TEST(HttpLimits, ASilentConnectionIsClosedWithoutAWord) {
  LoopbackServer server(echo, hasty());
  RawClient silent(server.port());
  RawClient idle(server.port());
  EXPECT_EQ(idle.ask(kGet).status, 200U);
  EXPECT_EQ(silent.rest(), "");
  EXPECT_TRUE(silent.closed());
  EXPECT_EQ(idle.rest(), "");
  EXPECT_TRUE(idle.closed());
}

// A byte now and then does not buy more time: the deadline is for the whole head.
TEST(HttpLimits, ADrippingHeadHasOneDeadline) {
  LoopbackServer server(echo, hasty());
  RawClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
  Reply reply;
  for (int i = 0; i < 1000 && reply.status == 0; ++i) {
    if (!client.send("y")) break;
    if (client.more(20)) reply = client.reply();
  }
  EXPECT_EQ(reply.status, 408U);
  EXPECT_TRUE(client.closed());
}

TEST(HttpLimits, ADrippingBodyHasToMakeProgress) {
  LoopbackServer server(echo, hasty());
  RawClient client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
  Reply reply;
  for (int i = 0; i < 1000 && reply.status == 0; ++i) {
    if (!client.send("x")) break;
    if (client.more(20)) reply = client.reply();
  }
  EXPECT_EQ(reply.status, 408U);
  EXPECT_TRUE(client.closed());
}

TEST(HttpLimits, AStalledBodyIsAnErrorForTheHandler) {
  LoopbackServer server(echo, hasty());
  RawClient client(server.port());
  const Reply reply =
      client.ask("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
  EXPECT_EQ(reply.status, 408U);
  EXPECT_TRUE(reply.has("Connection: close"));
  EXPECT_TRUE(client.closed());
}

TEST(HttpLimits, AReaderThatStopsEndsTheAnswer) {
  std::promise<Error> ended;
  const auto endless = [&ended](Exchange& exchange) -> awaitable<void> {
    const std::vector<std::byte> block(65536);
    auto sent = co_await exchange.begin(200, "text/plain", std::nullopt);
    while (sent) sent = co_await exchange.write(block);
    ended.set_value(sent.error());
  };
  LoopbackServer server(endless, hasty());
  RawClient client(server.port(), 4096);
  client.send(kGet);
  auto future = ended.get_future();
  ASSERT_EQ(future.wait_for(std::chrono::milliseconds(kWaitMilliseconds)),
            std::future_status::ready);
  EXPECT_EQ(future.get().code, Errc::Gone);
}

TEST(HttpLimits, ConnectionsPerPeer) {
  Limits limits;
  limits.connections_per_peer_max = 2;
  LoopbackServer server(echo, limits);
  RawClient one(server.port());
  auto two = std::make_unique<RawClient>(server.port());
  EXPECT_EQ(one.ask(kGet).status, 200U);
  EXPECT_EQ(two->ask(kGet).status, 200U);
  RawClient three(server.port());
  const Reply reply = three.reply();
  EXPECT_EQ(reply.status, 503U);
  EXPECT_TRUE(reply.has("Retry-After"));
  EXPECT_NE(reply.body.find("Exhausted"), std::string::npos);
  EXPECT_TRUE(three.closed());
  EXPECT_EQ(server.counters().refused, 1U);
  two.reset();
  ASSERT_TRUE(server.wait_until([](const ServerCounters& now) { return now.open == 1; }));
  EXPECT_EQ(RawClient(server.port()).ask(kGet).status, 200U);
  EXPECT_EQ(one.ask(kGet).status, 200U) << "who is inside stays";
}

TEST(HttpLimits, ConnectionsInAll) {
  Limits limits;
  limits.connections_max = 3;
  LoopbackServer server(echo, limits);
  std::vector<std::unique_ptr<RawClient>> inside;
  for (int i = 0; i < 3; ++i) {
    inside.push_back(std::make_unique<RawClient>(server.port()));
    EXPECT_EQ(inside.back()->ask(kGet).status, 200U);
  }
  EXPECT_EQ(RawClient(server.port()).reply().status, 503U);
}

TEST(HttpLimits, HeadsThatAreTooLarge) {
  LoopbackServer server(echo);
  const Limits limits;
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\n";
  RawClient bytes(server.port());
  bytes.send(start + "X: " + std::string(limits.header_bytes_max, 'x'));
  EXPECT_EQ(bytes.reply().status, 431U);
  EXPECT_TRUE(bytes.closed());
  std::string many = start;
  for (std::size_t i = 0; i < limits.headers_max; ++i) many += "X: y\r\n";
  EXPECT_EQ(RawClient(server.port()).ask(many + "\r\n").status, 431U);
  const std::string target(limits.target_bytes_max, 'x');
  EXPECT_EQ(RawClient(server.port()).ask("GET /" + target + " HTTP/1.1\r\nHost: a\r\n\r\n").status,
            414U);
  const std::string fits =
      start + "X: " + std::string(limits.header_bytes_max - start.size() - 7, 'x') + "\r\n\r\n";
  EXPECT_EQ(fits.size(), limits.header_bytes_max);
  EXPECT_EQ(RawClient(server.port()).ask(fits).status, 200U);
}

}  // namespace
}  // namespace caisson::http::test
