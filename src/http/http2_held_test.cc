// What a peer of HTTP/2 can make us hold, and for how long: heads, bodies and answers that it does
// not take.
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/connection.h"
#include "http/http2_client_test.h"
#include "http/http2_connection.h"
#include "http/server_core.h"

namespace caisson::http::test {
namespace {

Limits both() {
  Limits limits;
  limits.http2 = true;
  return limits;
}

Limits hasty() {
  Limits limits = both();
  limits.stall_seconds = 1;
  return limits;
}

awaitable<void> wait_for_the_end(Exchange& exchange) { co_await exchange.wait_for_hangup(); }

std::string settings(std::uint16_t name, std::uint32_t value) {
  return frame(
      NGHTTP2_SETTINGS, 0, 0,
      std::string{static_cast<char>(name >> 8U), static_cast<char>(name & 0xffU)} + number(value));
}

std::string shut() { return settings(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0); }

std::string open_by(std::uint32_t stream, std::uint32_t bytes) {
  return frame(NGHTTP2_WINDOW_UPDATE, 0, stream, number(bytes));
}

// A field of 4000 bytes, put into the table, and `more` references to it of one byte each.
std::string first_block(std::size_t more) {
  return get_block() + std::string("\x40\x01x\x7f\xa1\x1e", 6) + std::string(4000, 'x') +
         std::string(more, '\xbe');
}

// --- time

// The answer fits the window and its empty last frame does not: nobody waits for it but the clock.
TEST(Http2Held, AnEndThatTheWindowKeepsBackHasADeadline) {
  const auto four = [](Exchange& exchange) -> awaitable<void> {
    (void)co_await exchange.begin(200, "text/plain", std::nullopt);
    const std::string body = "four";
    (void)co_await exchange.write(std::as_bytes(std::span(body)));
    (void)co_await exchange.end();
  };
  LoopbackServer server(four, hasty());
  FrameClient client(server.port());
  client.send(settings(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 4));
  client.get(1);
  EXPECT_EQ(client.next(NGHTTP2_DATA).payload, "four");
  EXPECT_EQ(client.next(NGHTTP2_RST_STREAM).code(), NGHTTP2_CANCEL);
}

// Whoever opens his window by a byte before his time is over is late all the same.
TEST(Http2Held, AByteNowAndThenIsNoProgress) {
  Limits limits = hasty();
  limits.header_seconds = limits.idle_seconds = 1;
  limits.stall_seconds = 2;
  LoopbackServer server(
      [](Exchange& exchange) -> awaitable<void> {
        co_await exchange.respond(200, "text/plain", std::string(kProgressBytesMin, 'x'));
      },
      limits);
  FrameClient client(server.port());
  client.send(shut());
  client.get(1);
  ASSERT_EQ(client.next(NGHTTP2_HEADERS).stream, 1U);
  Frame got;
  for (int i = 0; i < 6 && got.type != NGHTTP2_RST_STREAM; ++i) {
    client.send(open_by(1, 1));
    do got = client.next();
    while (got.type != NGHTTP2_DATA && got.type != NGHTTP2_RST_STREAM && got.type != 0xff);
    // Another connection's idle time measures how long a second is.
    EXPECT_TRUE(RawClient(server.port()).closed());
  }
  EXPECT_EQ(got.type, NGHTTP2_RST_STREAM);
  EXPECT_EQ(got.code(), NGHTTP2_CANCEL);
}

// --- bytes

TEST(Http2Held, HeadsOfAConnectionHaveOneLimit) {
  LoopbackServer server(wait_for_the_end, both());
  FrameClient client(server.port());
  // About 28 KiB each: with forty of them there is no room for more.
  const auto flags = static_cast<std::uint8_t>(NGHTTP2_FLAG_END_HEADERS);
  client.send(frame(NGHTTP2_HEADERS, flags, 1, first_block(6)));
  constexpr std::uint32_t kStreams = 40;
  for (std::uint32_t i = 1; i < kStreams; ++i) {
    client.send(frame(NGHTTP2_HEADERS, flags, 2 * i + 1, get_block() + std::string(7, '\xbe')));
  }
  // Those that find no room are answered, or refused before they begin; the others go on.
  std::size_t refused = 0;
  while (refused < kStreams - kHeadsBytesMax / 28000) {
    const Frame got = client.next();
    ASSERT_NE(got.type, 0xff);
    if (got.type == NGHTTP2_HEADERS || got.type == NGHTTP2_RST_STREAM) ++refused;
  }
  EXPECT_LE(server.counters().requests, kHeadsBytesMax / 28000);
  // What the others held is free again when they have gone.
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    client.send(frame(NGHTTP2_RST_STREAM, 0, 2 * i + 1, number(NGHTTP2_CANCEL)));
  }
  const std::uint64_t before = server.counters().requests;
  client.get(2 * kStreams + 1);
  EXPECT_TRUE(
      server.wait_until([&](const ServerCounters& now) { return now.requests == before + 1; }));
}

// Bodies that nobody reads: one peer has its share of what there is, however many connections.
TEST(Http2Held, OnePeerHasAShare) {
  LoopbackServer server(wait_for_the_end, both());
  const std::string piece(16000, 'x');
  std::vector<std::unique_ptr<FrameClient>> clients;
  // The windows that were announced count from the acknowledgement on.
  std::string heads = frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, "");
  std::string bodies;
  const Limits limits = both();
  for (std::uint32_t stream = 1; stream < 9; stream += 2) {
    heads += frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, stream, get_block());
    for (std::size_t sent = 0; sent + piece.size() <= limits.h2_stream_window; sent += piece.size())
      bodies += frame(NGHTTP2_DATA, 0, stream, piece);
  }
  const std::size_t enough = kHeldBytesPerPeerMax / limits.h2_connection_window + 16;
  for (std::size_t i = 0; i < enough; ++i) {
    clients.push_back(std::make_unique<FrameClient>(server.port()));
    // The window of the connection opens with its settings.
    EXPECT_EQ(clients.back()->next(NGHTTP2_WINDOW_UPDATE).type, NGHTTP2_WINDOW_UPDATE);
    clients.back()->send(heads);
  }
  for (const auto& client : clients) {
    client->send(bodies + frame(NGHTTP2_PING, 0, 0, "12345678"));
    EXPECT_EQ(client->next(NGHTTP2_PING).type, NGHTTP2_PING);  // all of it has been looked at
  }
  EXPECT_GT(server.counters().held, kHeldBytesPerPeerMax / 10 * 9);
  EXPECT_LE(server.counters().held, kHeldBytesPerPeerMax);
  clients.clear();
  EXPECT_TRUE(server.wait_until([](const ServerCounters& now) { return now.held == 0; }));
  H2Client client(server.port());
  EXPECT_TRUE(client.until([&] { return client.streams_max() == limits.h2_streams_max; }));
}

// While the answer waits for a window, the rest of the question is not kept.
TEST(Http2Held, ABodyThatNobodyWillReadIsDropped) {
  LoopbackServer server(
      [](Exchange& exchange) -> awaitable<void> {
        co_await exchange.respond(415, "text/plain", "not this");
      },
      both());
  FrameClient client(server.port());
  client.send(shut());
  client.send(frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, get_block()));
  ASSERT_EQ(client.next(NGHTTP2_HEADERS).stream, 1U);
  const std::string piece(16000, 'x');
  for (int i = 0; i < 4; ++i) client.send(frame(NGHTTP2_DATA, 0, 1, piece));
  client.send(frame(NGHTTP2_PING, 0, 0, "12345678"));
  ASSERT_EQ(client.next(NGHTTP2_PING).type, NGHTTP2_PING);
  EXPECT_EQ(server.counters().held, 0U);
}

TEST(Http2Held, TheServerHasALimit) {
  boost::asio::io_context context;
  FunctionHandler handler(wait_for_the_end);
  const auto core =
      std::make_shared<ServerCore>(context.get_executor(), handler, both(), error_shape);
  Seat one(core, "one");
  Seat other(core, "other");
  one.hold(kHeldBytesPerPeerMax);
  EXPECT_FALSE(one.has_room(1));
  EXPECT_FALSE(core->has_room("one"));
  EXPECT_TRUE(other.has_room(1) && core->has_room("other") && core->has_room("third"));
  other.hold(kHeldBytesPerPeerMax);
  EXPECT_FALSE(core->has_room("third"));
  other.give_back(kHeldBytesPerPeerMax);
  EXPECT_TRUE(core->has_room("third"));
  one.give_back(kHeldBytesPerPeerMax);
  EXPECT_EQ(core->held, 0U);
}

// --- the end

class Loop : public boost::asio::io_context {
 public:
  void drop_waiting() { shutdown(); }
};

// The coroutines go before the server does, and the last who holds a connection is its own stream:
// cutting it ends it while the server walks along its list.
TEST(Http2Held, AServerEndsAfterItsCoroutines) {
  Loop context;
  FunctionHandler handler(wait_for_the_end);
  auto server = Server::make(context.get_executor(), handler, both(), error_shape);
  std::uint16_t port = 0;
  ASSERT_TRUE(server->listen(listen_v4(port)));
  std::vector<std::unique_ptr<FrameClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<FrameClient>(port));
    clients.back()->get(1);
  }
  while (server->counters().requests < clients.size()) context.run_one();
  server->stop(nullptr);
  context.drop_waiting();
  EXPECT_EQ(server->counters().open, clients.size());
  server.reset();
}

}  // namespace
}  // namespace caisson::http::test
