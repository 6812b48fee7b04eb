// HTTP/2 in ordinary use: answers, trailers, many streams, slow readers, ends.
#include <atomic>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/http2_client_test.h"
#include "http/http2_connection.h"

namespace caisson::http::test {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Limits both() {
  Limits limits;
  limits.http2 = true;
  return limits;
}

// What the handlers of a test saw.
struct Seen {
  std::atomic<int> inside = 0;
  std::atomic<int> ended = 0;
  std::atomic<int> gone = 0;
  std::atomic<std::size_t> written = 0;
};

awaitable<void> echo(Exchange& exchange) {
  auto body = co_await read_all(exchange, 100UL << 20U);
  if (!body) co_return;
  co_await exchange.respond(200, "text/plain", std::move(*body));
}

awaitable<void> describe(Exchange& exchange) {
  const Request& request = exchange.request();
  std::string text = request.method_text + " " + request.path + " ?" + request.query + " " +
                     std::string(request.field("Host")) + " " +
                     std::string(request.field("X-One")) + " " + request.peer.address;
  exchange.set("X-Reply", "yes");
  exchange.set("Connection", "close");
  co_await exchange.respond(exchange.http2() ? 200 : 201, "text/plain", std::move(text));
}

awaitable<void> with_trailers(Exchange& exchange) {
  (void)co_await exchange.begin(200, "application/grpc", std::nullopt);
  (void)co_await exchange.write(bytes_of("hello "));
  (void)co_await exchange.write(bytes_of("world"));
  exchange.set_trailer("Grpc-Status", "0");
  exchange.set_trailer("grpc-message", "fine");
  (void)co_await exchange.end();
}

awaitable<void> whole_with_trailers(Exchange& exchange, std::string body) {
  exchange.set_trailer("grpc-status", "5");
  co_await exchange.respond(200, "application/grpc", std::move(body));
}

awaitable<void> big(Exchange& exchange, std::size_t bytes, std::size_t piece) {
  const std::vector<std::byte> block(piece, std::byte{'x'});
  auto sent = co_await exchange.begin(200, "text/plain", std::nullopt);
  for (std::size_t done = 0; sent && done < bytes; done += piece) {
    sent = co_await exchange.write(block);
  }
  if (sent) (void)co_await exchange.end();
}

awaitable<void> bugs(Exchange& exchange) {
  const std::string& path = exchange.request().path;
  if (path == "/throw") throw std::runtime_error("a bug");
  if (path == "/silent") co_return;
  if (path == "/none") {
    co_await exchange.respond(204, "", "");
    co_return;
  }
  const std::optional<std::uint64_t> length = path == "/sized" ? 5 : path == "/long" ? 4 : 6;
  (void)co_await exchange.begin(200, "text/plain", length);
  if (path == "/half") throw std::runtime_error("a bug");
  (void)co_await exchange.write(bytes_of("12345"));
  (void)co_await exchange.end();
}

awaitable<void> route(Exchange& exchange) {
  const std::string& path = exchange.request().path;
  if (path == "/echo") {
    co_await echo(exchange);
  } else if (path == "/describe") {
    co_await describe(exchange);
  } else if (path == "/trailers") {
    co_await with_trailers(exchange);
  } else if (path == "/trailers-only") {
    co_await whole_with_trailers(exchange, "");
  } else if (path == "/whole") {
    co_await whole_with_trailers(exchange, "body");
  } else if (path == "/big") {
    co_await big(exchange, 32UL << 20U, 4096);
  } else if (path == "/pieces") {
    co_await big(exchange, 8UL << 20U, 1UL << 20U);
  } else if (path == "/early") {
    co_await exchange.respond(403, "text/plain", "no");
  } else {
    co_await bugs(exchange);
  }
}

class Http2 : public ::testing::Test {
 protected:
  LoopbackServer server_{route, both()};
};

TEST_F(Http2, ARequestIsAnExchange) {
  H2Client client(server_.port());
  const std::int32_t id = client.ask("GET", "/describe?a=b%20c", {{"x-one", "1"}});
  ASSERT_TRUE(client.done(id));
  const H2Answer& answer = client.answer(id);
  EXPECT_EQ(answer.status(), "200");
  EXPECT_EQ(answer.body, "GET /describe ?a=b%20c test.example:80 1 127.0.0.1");
  EXPECT_EQ(answer.head.at("content-type"), "text/plain");
  EXPECT_EQ(answer.head.at("content-length"), std::to_string(answer.body.size()));
  EXPECT_EQ(answer.head.at("x-request-id").size(), 16U);
  EXPECT_EQ(answer.head.at("server"), "caisson");
  EXPECT_EQ(answer.head.at("x-reply"), "yes");
  EXPECT_EQ(answer.head.count("connection"), 0U);
  EXPECT_TRUE(answer.ended);
  EXPECT_EQ(answer.code, 0U);
  EXPECT_EQ(server_.counters().requests, 1U);
}

TEST_F(Http2, TheFirstBytesDecide) {
  RawClient old(server_.port());
  EXPECT_EQ(old.ask("GET /describe HTTP/1.1\r\nHost: a\r\n\r\n").status, 201U);
  EXPECT_EQ(old.ask("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").body, "hi");
  // As far as the second word it could still be a preface.
  RawClient close(server_.port());
  close.send("P");
  close.send("OST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(close.ask("hi").body, "hi");
  RawClient wrong(server_.port());
  EXPECT_EQ(wrong.ask("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n").status, 505U);
  H2Client client(server_.port());
  EXPECT_EQ(client.get("/describe").status(), "200");
}

TEST_F(Http2, WithoutTheSettingItIsHttp1Only) {
  LoopbackServer server(route);
  RawClient client(server.port());
  EXPECT_EQ(client.ask(kHttp2Preface).status, 505U);
}

TEST_F(Http2, BodiesBothWays) {
  H2Client client(server_.port());
  EXPECT_EQ(client.post("/echo", "").body, "");
  EXPECT_EQ(client.post("/echo", "x").body, "x");
  std::string large(3UL << 20U, 'a');
  for (std::size_t i = 0; i < large.size(); i += 1000) large[i] = static_cast<char>('a' + i % 26);
  EXPECT_EQ(client.post("/echo", large).body, large);
  EXPECT_EQ(server_.counters().held, 0U);
}

TEST_F(Http2, TrailersFollowTheBody) {
  H2Client client(server_.port());
  const H2Answer& answer = client.get("/trailers");
  EXPECT_EQ(answer.body, "hello world");
  EXPECT_EQ(answer.heads, 2U);
  EXPECT_EQ(answer.trailers.at("grpc-status"), "0");
  EXPECT_EQ(answer.trailers.at("grpc-message"), "fine");
  EXPECT_EQ(answer.head.count("content-length"), 0U);
  const H2Answer& whole = client.get("/whole");
  EXPECT_EQ(whole.body, "body");
  EXPECT_EQ(whole.heads, 2U);
  EXPECT_EQ(whole.trailers.at("grpc-status"), "5");
}

// gRPC's "trailers-only": one frame says everything.
TEST_F(Http2, TrailersWithoutABodyJoinTheHead) {
  H2Client client(server_.port());
  const H2Answer& answer = client.get("/trailers-only");
  EXPECT_EQ(answer.heads, 1U);
  EXPECT_EQ(answer.head.at("grpc-status"), "5");
  EXPECT_EQ(answer.head.at("content-type"), "application/grpc");
  EXPECT_TRUE(answer.trailers.empty());
  EXPECT_TRUE(answer.ended);
}

// HEADERS, DATA and trailers of a small answer come in one piece.
TEST_F(Http2, ASmallAnswerIsOneSend) {
  FrameClient client(server_.port());
  client.send(frame(NGHTTP2_PING, 0, 0, "12345678"));
  // SETTINGS, WINDOW_UPDATE and two acknowledgements: from then on nothing is on its way.
  for (int i = 0; i < 4; ++i) ASSERT_NE(client.next().type, 0xff);
  client.get(1, "/whole");
  const std::string bytes = client.wire().any();
  const std::size_t body = bytes.find("body");
  ASSERT_NE(body, std::string::npos);
  EXPECT_GT(bytes.size(), body + 4 + 9) << "the trailers are there, too";
}

TEST_F(Http2, AHundredStreamsAtOnce) {
  H2Client client(server_.port());
  ASSERT_TRUE(client.until([&] { return client.streams_max() == 128; }));
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 100; ++i) {
    ids.push_back(client.ask("POST", "/echo", {}, std::string(20000, 'x') + std::to_string(i)));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(client.done(ids[i]));
    EXPECT_EQ(client.answer(ids[i]).body, std::string(20000, 'x') + std::to_string(i));
  }
  EXPECT_EQ(server_.counters().connections, 1U);
}

TEST_F(Http2, LargeAnswersInSmallAndLargePieces) {
  H2Client client(server_.port());
  EXPECT_EQ(client.get("/big").body.size(), 32UL << 20U);
  EXPECT_EQ(client.get("/pieces").body.size(), 8UL << 20U);
}

TEST_F(Http2, HeadAndEmptyAnswers) {
  H2Client client(server_.port());
  const std::int32_t head = client.ask("HEAD", "/describe");
  ASSERT_TRUE(client.done(head));
  EXPECT_EQ(client.answer(head).body, "");
  EXPECT_NE(client.answer(head).head.at("content-length"), "0");
  const std::int32_t streamed = client.ask("HEAD", "/sized");
  ASSERT_TRUE(client.done(streamed));
  EXPECT_EQ(client.answer(streamed).body, "");
  const H2Answer& none = client.get("/none");
  EXPECT_EQ(none.status(), "204");
  EXPECT_EQ(none.head.count("content-length"), 0U);
}

TEST_F(Http2, BugsOfAHandlerCostItsStreamOnly) {
  H2Client client(server_.port());
  EXPECT_EQ(client.get("/throw").status(), "500");
  EXPECT_EQ(client.get("/silent").status(), "500");
  EXPECT_EQ(client.get("/half").code, NGHTTP2_INTERNAL_ERROR);
  EXPECT_EQ(client.get("/long").code, NGHTTP2_INTERNAL_ERROR);
  EXPECT_EQ(client.get("/short").code, NGHTTP2_INTERNAL_ERROR);
  EXPECT_EQ(client.get("/sized").body, "12345");
}

// The client is told to stop, not left to push a body that nobody reads.
TEST_F(Http2, AnEarlyAnswerStopsTheUpload) {
  H2Client client(server_.port());
  const std::int32_t id = client.ask("POST", "/early", {}, std::string(1000, 'x'), true);
  ASSERT_TRUE(client.done(id));
  EXPECT_EQ(client.answer(id).status(), "403");
  EXPECT_EQ(client.answer(id).body, "no");
  EXPECT_TRUE(client.answer(id).ended);
  EXPECT_EQ(client.answer(id).code, NGHTTP2_NO_ERROR);
  // What it held was given back: the connection's window lets as much through as ever.
  for (int i = 0; i < 40; ++i) {
    const std::int32_t more = client.ask("POST", "/early", {}, std::string(60000, 'x'), true);
    ASSERT_TRUE(client.done(more)) << i;
  }
  EXPECT_EQ(client.post("/echo", std::string(2UL << 20U, 'y')).body.size(), 2UL << 20U);
  EXPECT_EQ(server_.counters().held, 0U);
}

TEST_F(Http2, PingsAreAnswered) {
  H2Client client(server_.port());
  for (int i = 0; i < 10; ++i) client.ping();
  EXPECT_TRUE(client.until([&] { return client.pongs() == 10; }));
}

// A reader that stops holds up its own stream; what waits for it is bounded, and others go on.
TEST(Http2Slow, ASlowReaderIsWaitedForWithBoundedMemory) {
  Seen seen;
  const auto endless = [&seen](Exchange& exchange) -> awaitable<void> {
    if (exchange.request().path == "/small") {
      co_await exchange.respond(200, "text/plain", "small");
      co_return;
    }
    const std::vector<std::byte> block(4096);
    auto sent = co_await exchange.begin(200, "text/plain", std::nullopt);
    while (sent) {
      sent = co_await exchange.write(block);
      if (sent) seen.written += block.size();
    }
    ++seen.gone;
  };
  LoopbackServer server(endless, both());
  H2Client::Options options;
  options.open_windows = false;
  H2Client client(server.port(), options);
  const std::int32_t id = client.ask("GET", "/endless");
  ASSERT_TRUE(client.until([&] { return client.received() == 65535; }));
  EXPECT_LE(seen.written, 65535U);
  EXPECT_LE(server.counters().held, 0U);
  client.reset(id);
  EXPECT_TRUE(server.wait_until([&](const ServerCounters&) { return seen.gone == 1; }));
  EXPECT_EQ(nghttp2_session_set_local_window_size(client.session(), 0, 0, 1 << 20), 0);
  EXPECT_EQ(client.get("/small").body, "small");
}

// The windows are open, but nobody reads the socket.
TEST(Http2Slow, AFullSocketIsWaitedForWithBoundedMemory) {
  Seen seen;
  const auto endless = [&seen](Exchange& exchange) -> awaitable<void> {
    const std::vector<std::byte> block(50000);
    ++seen.inside;
    auto sent = co_await exchange.begin(200, "text/plain", std::nullopt);
    while (sent) {
      sent = co_await exchange.write(block);
      if (sent) seen.written += block.size();
    }
    ++seen.gone;
  };
  LoopbackServer server(endless, both());
  H2Client::Options options;
  options.window = 1U << 30U;
  options.receive_buffer = 4096;
  H2Client client(server.port(), options);
  EXPECT_EQ(nghttp2_session_set_local_window_size(client.session(), 0, 0, 1 << 30), 0);
  for (int i = 0; i < 8; ++i) client.ask("GET", "/");
  // Two looks without progress between them, with all of them there: all handlers wait.
  std::size_t before = 1;
  ASSERT_TRUE(server.wait_until([&](const ServerCounters& now) {
    const bool still = seen.inside == 8 && now.held >= kOutBytesMax &&
                       seen.written == std::exchange(before, seen.written);
    return still;
  }));
  EXPECT_LE(server.counters().held, kOutBytesMax + 32768);
  client.wire().close();
  EXPECT_TRUE(server.wait_until(
      [&](const ServerCounters& now) { return seen.gone == 8 && now.open == 0 && now.held == 0; }));
}

// Nobody reads the bodies: what is held is what the windows allow.
TEST(Http2Slow, UnreadBodiesAreBoundedByTheWindows) {
  Seen seen;
  const auto idle = [&seen](Exchange& exchange) -> awaitable<void> {
    ++seen.inside;
    co_await exchange.wait_for_hangup();
    ++seen.gone;
  };
  Limits limits = both();
  limits.h2_stream_window = 65535;
  limits.h2_connection_window = 200000;
  LoopbackServer server(idle, limits);
  H2Client client(server.port());
  for (int i = 0; i < 8; ++i) client.ask("POST", "/", {}, std::string(100000, 'x'));
  client.ping();
  ASSERT_TRUE(client.until([&] { return client.pongs() == 1; }));
  client.push();
  EXPECT_TRUE(server.wait_until([](const ServerCounters& now) { return now.held == 200000; }));
  EXPECT_EQ(server.counters().held, 200000U);
  client.wire().close();
  EXPECT_TRUE(server.wait_until(
      [&](const ServerCounters& now) { return seen.gone == 8 && now.held == 0 && now.open == 0; }));
}

TEST(Http2End, AResetEndsEveryWaitOfItsStream) {
  Seen seen;
  const auto waits = [&seen](Exchange& exchange) -> awaitable<void> {
    ++seen.inside;
    std::array<std::byte, 16> room{};
    if (exchange.request().path == "/read") {
      const auto got = co_await exchange.read_some(room);
      if (!got && got.error().code == Errc::Gone) ++seen.gone;
    } else {
      co_await exchange.wait_for_hangup();
      const auto sent = co_await exchange.begin(200, "", std::nullopt);
      if (!sent && sent.error().code == Errc::Gone) ++seen.gone;
    }
    ++seen.ended;
  };
  LoopbackServer server(waits, both());
  H2Client client(server.port());
  const std::int32_t read = client.ask("POST", "/read", {}, "", true);
  const std::int32_t hangup = client.ask("GET", "/hangup");
  const std::int32_t stays = client.ask("GET", "/hangup");
  ASSERT_TRUE(server.wait_until([&](const ServerCounters&) { return seen.inside == 3; }));
  client.reset(read);
  client.reset(hangup);
  ASSERT_TRUE(server.wait_until([&](const ServerCounters&) { return seen.gone == 2; }));
  EXPECT_EQ(seen.ended, 2);
  EXPECT_FALSE(client.answer(stays).closed);
  client.wire().close();
  EXPECT_TRUE(server.wait_until(
      [&](const ServerCounters& now) { return seen.gone == 3 && now.open == 0; }));
}

TEST(Http2End, ACutIsOfOneStream) {
  const auto cuts = [](Exchange& exchange) -> awaitable<void> {
    if (exchange.request().path == "/cut") {
      exchange.cut();
      co_await exchange.wait_for_hangup();
    } else {
      co_await exchange.respond(200, "text/plain", "fine");
    }
  };
  LoopbackServer server(cuts, both());
  H2Client client(server.port());
  EXPECT_EQ(client.get("/cut").code, NGHTTP2_CANCEL);
  EXPECT_EQ(client.get("/").body, "fine");
}

TEST(Http2End, WhatNeedsAConnectionOfItsOwnIsRefused) {
  const auto tries = [](Exchange& exchange) -> awaitable<void> {
    const auto socket = co_await exchange.accept_websocket("");
    const auto raw = co_await exchange.begin(101, "", std::nullopt);
    const bool both_refused = !socket && socket.error().code == Errc::Unsupported && !raw &&
                              raw.error().code == Errc::Unsupported;
    co_await exchange.respond(both_refused ? 200 : 500, "text/plain", "");
  };
  LoopbackServer server(tries, both());
  EXPECT_EQ(H2Client(server.port()).get("/").status(), "200");
}

// A wait that is cancelled by its handler returns, and the stream can still be answered.
TEST(Http2End, AWaitCanBeCancelled) {
  using boost::asio::experimental::awaitable_operators::operator||;
  const auto races = [](Exchange& exchange) -> awaitable<void> {
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
    timer.expires_after(std::chrono::milliseconds(1));
    auto pause = [&timer]() -> awaitable<void> {
      co_await timer.async_wait(boost::asio::use_awaitable);
    };
    co_await (exchange.wait_for_hangup() || pause());
    co_await exchange.respond(200, "text/plain", "awake");
  };
  LoopbackServer server(races, both());
  EXPECT_EQ(H2Client(server.port()).get("/").body, "awake");
}

TEST(Http2End, AStopLetsStreamsEndAndStartsNoOthers) {
  Seen seen;
  std::atomic<bool> go = false;
  const auto waits = [&](Exchange& exchange) -> awaitable<void> {
    ++seen.inside;
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
    while (!go) {
      timer.expires_after(std::chrono::milliseconds(1));
      co_await timer.async_wait(boost::asio::use_awaitable);
    }
    co_await exchange.respond(200, "text/plain", "whole");
  };
  LoopbackServer server(waits, both());
  H2Client client(server.port());
  const std::int32_t id = client.ask("GET", "/");
  ASSERT_TRUE(server.wait_until([&](const ServerCounters&) { return seen.inside == 1; }));
  H2Client quiet(server.port());
  ASSERT_TRUE(quiet.until([&] { return quiet.streams_max() == 128; }));
  std::promise<void> stopped;
  server.on_thread([&] { server.server().stop([&] { stopped.set_value(); }); });
  EXPECT_FALSE(quiet.until([] { return false; })) << "an idle one is closed";
  EXPECT_EQ(quiet.goaway(), NGHTTP2_NO_ERROR);
  ASSERT_TRUE(client.until([&] { return client.goaway().has_value(); }));
  EXPECT_EQ(client.goaway(), NGHTTP2_NO_ERROR);
  EXPECT_FALSE(client.answer(id).closed);
  go = true;
  EXPECT_TRUE(client.done(id));
  EXPECT_EQ(client.answer(id).body, "whole");
  EXPECT_FALSE(client.until([] { return false; }));
  client.wire().close();
  quiet.wire().close();
  stopped.get_future().wait();
  EXPECT_EQ(seen.inside, 1);
}

TEST(Http2End, ASecondStopCuts) {
  Seen seen;
  const auto stays = [&seen](Exchange& exchange) -> awaitable<void> {
    ++seen.inside;
    co_await exchange.wait_for_hangup();
    ++seen.gone;
  };
  LoopbackServer server(stays, both());
  H2Client client(server.port());
  client.ask("GET", "/");
  ASSERT_TRUE(server.wait_until([&](const ServerCounters&) { return seen.inside == 1; }));
  std::promise<void> stopped;
  server.on_thread([&] { server.server().stop([&] { stopped.set_value(); }); });
  server.on_thread([&] { server.server().stop(nullptr); });
  stopped.get_future().wait();
  EXPECT_EQ(seen.gone, 1);
}

// The server object goes while requests run; their coroutines end by themselves.
TEST(Http2End, TheServerMayGoFirst) {
  Seen seen;
  {
    const auto stays = [&seen](Exchange& exchange) -> awaitable<void> {
      ++seen.inside;
      std::array<std::byte, 16> room{};
      (void)co_await exchange.read_some(room);
      ++seen.gone;
    };
    LoopbackServer server(stays, both());
    H2Client client(server.port());
    client.ask("POST", "/", {}, "", true);
    ASSERT_TRUE(server.wait_until([&](const ServerCounters&) { return seen.inside == 1; }));
  }
  SUCCEED();
}

}  // namespace
}  // namespace caisson::http::test
