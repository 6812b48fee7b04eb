// P36: a client cannot exhaust the server, nor make it and a proxy in front disagree about where a
// request ends. A real server on a loopback socket, hostile clients beside an honest one.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "http/loopback_test.h"

namespace caisson::http::test {
namespace {

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

// Counts what it was asked: a smuggled request would be one more.
awaitable<void> answer(Exchange& exchange) {
  auto body = co_await read_all(exchange, 100000);
  const unsigned status = body ? 200 : 400;
  co_await exchange.respond(status, "text/plain", exchange.request().path);
}

Limits hasty() {
  Limits limits;
  limits.header_seconds = limits.idle_seconds = limits.stall_seconds = 1;
  return limits;
}

using Crowd = std::vector<std::unique_ptr<RawClient>>;

Crowd crowd(const LoopbackServer& server, int size, std::string_view bytes) {
  Crowd clients;
  for (int i = 0; i < size; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send(bytes);
  }
  return clients;
}

// Each of them drips a byte now and then, until it is cut; somebody else is served all the while.
void drip_until_cut(LoopbackServer& server, Crowd& clients) {
  RawClient honest(server.port());
  for (int round = 0; round < 3000; ++round) {
    bool all_cut = true;
    for (auto& client : clients) {
      if (client->fd() < 0) continue;
      if (client->more(0) || !client->send("x")) {
        EXPECT_TRUE(client->closed());
        client->close();
      } else {
        all_cut = false;
      }
    }
    ASSERT_EQ(honest.ask(kGet).status, 200U);
    if (all_cut) return;
    (void)honest.more(5);
  }
  FAIL() << "a dripping client was never cut";
}

TEST(P36, SlowHeadsAreCut) {
  LoopbackServer server(answer, hasty());
  Crowd clients = crowd(server, 50, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
  drip_until_cut(server, clients);
  EXPECT_TRUE(server.wait_until([](const ServerCounters& now) { return now.open <= 1; }));
}

TEST(P36, SlowBodiesAreCut) {
  LoopbackServer server(answer, hasty());
  Crowd clients = crowd(server, 50, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
  drip_until_cut(server, clients);
}

TEST(P36, SlowChunksAreCut) {
  LoopbackServer server(answer, hasty());
  Crowd clients = crowd(
      server, 50, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n");
  drip_until_cut(server, clients);
}

TEST(P36, HeaderFloodsAreRefusedEarly) {
  LoopbackServer server(answer);
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (const std::string& unit :
       {std::string("A: b\r\n"), std::string(4096, 'x'), "X: " + std::string(4000, 'y') + "\r\n"}) {
    RawClient client(server.port());
    client.send(start);
    std::size_t sent = 0;
    // The server stops reading soon after its limit, whatever is offered.
    while (sent < 64UL * 1024 * 1024 && !client.more(0) && client.send(unit)) sent += unit.size();
    EXPECT_LT(sent, 32UL * 1024 * 1024);
    const Reply reply = client.reply();
    EXPECT_TRUE(reply.status == 431 || reply.status == 414 || reply.status == 400) << reply.status;
  }
  EXPECT_EQ(server.counters().requests, 0U);
  EXPECT_EQ(RawClient(server.port()).ask(kGet).status, 200U);
}

TEST(P36, TrailerAndExtensionFloodsAreRefused) {
  LoopbackServer server(answer);
  const std::string start = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& body :
       {"1;" + std::string(100000, 'x'), "0\r\n" + std::string(100000, 'x'), [] {
          std::string many;
          for (int i = 0; i < 1000; ++i) many += "1;" + std::string(200, 'x') + "\r\na\r\n";
          return many;
        }()}) {
    RawClient client(server.port());
    EXPECT_EQ(client.ask(start + body).status, 400U);
    EXPECT_TRUE(client.closed());
  }
}

TEST(P36, TooManyConnectionsAreRefusedAndTheRestServed) {
  Limits limits;
  limits.connections_per_peer_max = 20;
  LoopbackServer server(answer, limits);
  RawClient honest(server.port());
  EXPECT_EQ(honest.ask(kGet).status, 200U);
  Crowd clients = crowd(server, 100, "");
  EXPECT_TRUE(server.wait_until([](const ServerCounters& now) { return now.refused == 81; }));
  EXPECT_EQ(server.counters().open, 20U);
  EXPECT_EQ(clients.back()->reply().status, 503U);
  EXPECT_EQ(honest.ask(kGet).status, 200U);
  clients.clear();
  EXPECT_TRUE(server.wait_until([](const ServerCounters& now) { return now.open == 1; }));
  EXPECT_EQ(RawClient(server.port()).ask(kGet).status, 200U);
}

// In each of these a second request is hidden for a reader who splits the bytes differently. The
// answer is one refusal and a closed connection: what follows is never read as a request.
TEST(P36, SmuggledRequestsAreNeverAnswered) {
  LoopbackServer server(answer);
  const std::string post = "POST /first HTTP/1.1\r\nHost: a\r\n";
  const std::string hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
  const std::string table[] = {
      post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
      post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + hidden,
      post + "Content-Length: 0\r\nContent-Length: 36\r\n\r\n" + hidden,
      post + "Content-Length: 0, 36\r\n\r\n" + hidden,
      post + "Content-Length : 36\r\n\r\n" + hidden,
      post + "Content-Length:\x0b" + "36\r\n\r\n" + hidden,
      post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden,
      post + "Transfer-Encoding: x, chunked\r\n\r\n0\r\n\r\n" + hidden,
      post + "Transfer-Encoding:\x0b" + "chunked\r\n\r\n0\r\n\r\n" + hidden,
      post + "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n" + hidden,
      post + "X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
      post + "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
      post + "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
      post + "Transfer-Encoding: chunked\r\n\r\n0\n\r\n" + hidden,
      post + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n" + hidden,
      post + "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n" + hidden,
      post + "Transfer-Encoding: chunked\r\n\r\n1;\na\r\n0\r\n\r\n" + hidden,
      "POST /first HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
      "GET http://b/first HTTP/1.1\r\nHost: a\r\n\r\n" + hidden,
      "GET /first HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" + hidden,
      "GET /first HTTP/1.1\r\n\r\n" + hidden,
  };
  for (const std::string& bytes : table) {
    RawClient client(server.port());
    const Reply reply = client.ask(bytes);
    EXPECT_EQ(reply.status, 400U) << bytes;
    EXPECT_TRUE(reply.has("Connection: close")) << bytes;
    EXPECT_EQ(client.rest(), "") << bytes;
    EXPECT_TRUE(client.closed()) << bytes;
  }
  EXPECT_LE(server.counters().requests, std::size(table)) << "only first ones came to the handler";
}

}  // namespace
}  // namespace caisson::http::test
