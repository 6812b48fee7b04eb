// One server, one raw client: what goes over the wire in ordinary use.
#include "http/server.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/loopback_test.h"

namespace caisson::http::test {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

awaitable<void> answer_body(Exchange& exchange, std::size_t max) {
  auto body = co_await read_all(exchange, max);
  if (!body) {
    const unsigned status = body.error().code == Errc::TooLarge ? 413 : 400;
    co_await exchange.respond(status, "text/plain", body.error().message);
    co_return;
  }
  co_await exchange.respond(200, "text/plain", std::move(*body));
}

awaitable<void> stream(Exchange& exchange, std::optional<std::uint64_t> length) {
  (void)co_await exchange.begin(200, "text/plain", length);
  (void)co_await exchange.write(bytes_of("hello "));
  (void)co_await exchange.write(bytes_of(""));
  (void)co_await exchange.write(bytes_of("world"));
  (void)co_await exchange.end();
}

awaitable<void> route(Exchange& exchange) {
  const std::string& path = exchange.request().path;
  if (path == "/echo") {
    co_await answer_body(exchange, 1000);
  } else if (path == "/stream") {
    co_await stream(exchange, std::nullopt);
  } else if (path == "/sized") {
    co_await stream(exchange, 11);
  } else if (path == "/short") {
    co_await stream(exchange, 12);
  } else if (path == "/long") {
    co_await stream(exchange, 8);
  } else if (path == "/throw") {
    throw std::runtime_error("a bug");
  } else if (path == "/throw-late") {
    (void)co_await exchange.begin(200, "text/plain", std::nullopt);
    throw std::runtime_error("a bug");
  } else if (path == "/nothing") {
    co_return;
  } else if (path == "/empty") {
    co_await exchange.respond(204, "", "");
  } else if (path == "/fields") {
    exchange.set("X-One", "1");
    exchange.set("X-One", "2");
    exchange.set("X-Bad", "a\r\nX-Evil: 1");
    exchange.set("X Bad", "a");
    exchange.set("Content-Length", "99");
    exchange.set("Connection", "upgrade");
    exchange.set("Set-Cookie", "a");
    exchange.set("Set-Cookie", "b");
    co_await exchange.respond(200, "text/plain", "x");
  } else if (path == "/close") {
    exchange.close_after();
    co_await exchange.respond(200, "text/plain", "x");
  } else if (path == "/big") {
    co_await exchange.respond(200, "text/plain", std::string(3000000, 'b'));
  } else {
    co_await exchange.respond(200, "text/plain", "hello");
  }
}

class HttpServer : public testing::Test {
 protected:
  LoopbackServer server_{route};
  RawClient client_{server_.port()};
};

std::string request(std::string_view line, std::string_view fields = "",
                    std::string_view body = "") {
  return std::string(line) + " HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n" +
         std::string(body);
}

TEST_F(HttpServer, KeepsTheConnection) {
  std::string ids;
  for (int i = 0; i < 3; ++i) {
    const Reply reply = client_.ask(request("GET /"));
    EXPECT_EQ(reply.status, 200U);
    EXPECT_EQ(reply.body, "hello");
    EXPECT_TRUE(reply.has("Server: caisson\r\n"));
    EXPECT_TRUE(reply.has("X-Content-Type-Options: nosniff\r\n"));
    EXPECT_TRUE(reply.has("Content-Type: text/plain\r\n"));
    EXPECT_TRUE(reply.has(" GMT\r\n"));
    EXPECT_FALSE(reply.has("Connection:"));
    const std::string id = reply.head.substr(reply.head.find("X-Request-Id: ") + 14, 16);
    EXPECT_EQ(ids.find(id), std::string::npos);
    ids += id + " ";
  }
  EXPECT_EQ(server_.counters().requests, 3U);
  EXPECT_EQ(server_.counters().connections, 1U);
}

TEST_F(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  client_.send(request("POST /echo", "Content-Length: 1\r\n", "1") + request("GET /stream") +
               request("POST /echo", "Content-Length: 1\r\n", "2"));
  EXPECT_EQ(client_.reply().body, "1");
  EXPECT_NE(client_.until("0\r\n\r\n").find("6\r\nhello \r\n5\r\nworld\r\n"), std::string::npos);
  EXPECT_EQ(client_.reply().body, "2");
}

TEST_F(HttpServer, ManyPipelinedInOneWrite) {
  std::string all;
  for (int i = 0; i < 2000; ++i) all += request("GET /");
  std::thread sender([&] { client_.send(all); });
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(client_.reply().body, "hello") << i;
  sender.join();
}

TEST_F(HttpServer, ChunkedBody) {
  EXPECT_EQ(client_
                .ask(request("POST /echo", "Transfer-Encoding: chunked\r\n",
                             "3;x=y\r\nabc\r\n4\r\ndefg\r\n0\r\nT: v\r\n\r\n"))
                .body,
            "abcdefg");
  EXPECT_EQ(client_.ask(request("GET /")).body, "hello");
}

TEST_F(HttpServer, BadChunksAreRefusedAndTheConnectionEnds) {
  const Reply reply = client_.ask(
      request("POST /echo", "Transfer-Encoding: chunked\r\n", "zz\r\n") + request("GET /"));
  EXPECT_EQ(reply.status, 400U);
  EXPECT_TRUE(reply.has("Connection: close"));
  EXPECT_EQ(client_.rest(), "");
}

TEST_F(HttpServer, TooLargeBody) {
  EXPECT_EQ(
      client_.ask(request("POST /echo", "Content-Length: 1001\r\n", std::string(1001, 'x'))).status,
      413U);
  EXPECT_EQ(client_.ask(request("GET /")).status, 200U) << "a little is drained";
  std::string chunk = "3e9\r\n" + std::string(1001, 'x') + "\r\n";
  EXPECT_EQ(
      client_.ask(request("POST /echo", "Transfer-Encoding: chunked\r\n", chunk + "0\r\n\r\n"))
          .status,
      413U);
  EXPECT_EQ(client_.ask(request("GET /")).status, 200U);
  EXPECT_EQ(client_.ask(request("POST /echo", "Content-Length: 1000000000000\r\n")).status, 413U);
  EXPECT_TRUE(client_.closed()) << "much is not";
}

TEST_F(HttpServer, UnreadBodyIsDrainedOrTheConnectionEnds) {
  EXPECT_EQ(
      client_.ask(request("POST /", "Content-Length: 65536\r\n", std::string(65536, 'x'))).body,
      "hello");
  EXPECT_EQ(client_.ask(request("GET /")).body, "hello");
  const Reply reply =
      client_.ask(request("POST /", "Content-Length: 65537\r\n", std::string(65537, 'x')));
  EXPECT_EQ(reply.body, "hello");
  EXPECT_TRUE(reply.has("Connection: close"));
  EXPECT_TRUE(client_.closed());
}

TEST_F(HttpServer, UnreadChunksBeyondTheDrainEndTheConnection) {
  std::string body;
  for (int i = 0; i < 40; ++i) body += "1000\r\n" + std::string(4096, 'x') + "\r\n";
  client_.send(request("POST /", "Transfer-Encoding: chunked\r\n", body));
  EXPECT_EQ(client_.reply().body, "hello");
  EXPECT_TRUE(client_.closed());
}

TEST_F(HttpServer, HeadHasNoBody) {
  client_.send(request("HEAD /") + request("HEAD /stream") + request("HEAD /sized") +
               request("GET /"));
  const Reply reply = client_.reply(true);
  EXPECT_TRUE(reply.has("Content-Length: 5\r\n"));
  EXPECT_TRUE(client_.reply(true).has("Transfer-Encoding: chunked"));
  EXPECT_TRUE(client_.reply(true).has("Content-Length: 11\r\n"));
  EXPECT_EQ(client_.reply().body, "hello");
}

TEST_F(HttpServer, ContinueComesWithTheFirstRead) {
  client_.send(request("POST /echo", "Content-Length: 2\r\nExpect: 100-continue\r\n"));
  EXPECT_EQ(client_.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(client_.ask("hi").body, "hi");
  // An answer without a read: no leave was given, so nobody knows whether the body comes.
  const Reply reply =
      client_.ask(request("POST /", "Content-Length: 2\r\nExpect: 100-continue\r\n"));
  EXPECT_EQ(reply.body, "hello");
  EXPECT_TRUE(reply.has("Connection: close"));
  EXPECT_TRUE(client_.closed());
}

TEST_F(HttpServer, Http10ClosesUnlessAsked) {
  const Reply kept = client_.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_TRUE(kept.has("Connection: keep-alive"));
  client_.send("GET /stream HTTP/1.0\r\n\r\n");
  const std::string all = client_.rest();
  EXPECT_EQ(all.find("chunked"), std::string::npos);
  EXPECT_TRUE(all.ends_with("\r\n\r\nhello world")) << all;
}

TEST_F(HttpServer, FieldsOfTheAnswer) {
  const Reply reply = client_.ask(request("GET /fields"));
  EXPECT_TRUE(reply.has("X-One: 2\r\n"));
  EXPECT_FALSE(reply.has("X-One: 1\r\n"));
  EXPECT_FALSE(reply.has("X-Bad"));
  EXPECT_FALSE(reply.has("X-Evil"));
  EXPECT_FALSE(reply.has("X Bad"));
  EXPECT_FALSE(reply.has("Content-Length: 99"));
  EXPECT_FALSE(reply.has("upgrade"));
  EXPECT_TRUE(reply.has("Set-Cookie: a\r\n"));
  EXPECT_TRUE(reply.has("Set-Cookie: b\r\n"));
}

TEST_F(HttpServer, AnswersWithoutABody) {
  const Reply reply = client_.ask(request("GET /empty"));
  EXPECT_EQ(reply.status, 204U);
  EXPECT_FALSE(reply.has("Content-Length"));
  EXPECT_EQ(client_.ask(request("GET /")).body, "hello");
}

TEST_F(HttpServer, AThrowingHandlerIsOneAnswer) {
  const Reply reply = client_.ask(request("GET /throw"));
  EXPECT_EQ(reply.status, 500U);
  EXPECT_NE(reply.body.find(R"("code":"Internal")"), std::string::npos);
  EXPECT_EQ(reply.body.find("a bug"), std::string::npos) << "the reason stays inside";
  EXPECT_TRUE(client_.closed());
  EXPECT_EQ(RawClient(server_.port()).ask(request("GET /nothing")).status, 500U);
}

// Half an answer must never look whole.
TEST_F(HttpServer, HalfAnAnswerIsCut) {
  for (const std::string path : {"/throw-late", "/short", "/long"}) {
    RawClient client(server_.port());
    client.send(request("GET " + path));
    const std::string all = client.rest();
    EXPECT_NE(all.find("200 OK"), std::string::npos) << path;
    EXPECT_EQ(all.find("0\r\n\r\n"), std::string::npos) << path;
    EXPECT_FALSE(all.ends_with("hello world ")) << path;
  }
}

TEST_F(HttpServer, CloseAfter) {
  EXPECT_TRUE(client_.ask(request("GET /close") + request("GET /")).has("Connection: close"));
  EXPECT_EQ(client_.rest(), "");
  RawClient other(server_.port());
  EXPECT_TRUE(other.ask(request("GET /", "Connection: close\r\n")).has("Connection: close"));
  EXPECT_TRUE(other.closed());
}

TEST_F(HttpServer, ALargeAnswerArrivesWhole) {
  EXPECT_EQ(client_.ask(request("GET /big")).body.size(), 3000000U);
  EXPECT_EQ(client_.ask(request("GET /")).body, "hello");
}

TEST_F(HttpServer, RefusalsHaveTheErrorsShape) {
  const Reply reply = client_.ask("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(reply.status, 400U);
  EXPECT_TRUE(reply.has("Connection: close"));
  EXPECT_TRUE(reply.has("application/json"));
  const std::string id = reply.head.substr(reply.head.find("X-Request-Id: ") + 14, 16);
  EXPECT_NE(reply.body.find(id), std::string::npos);
  EXPECT_TRUE(client_.closed());
  EXPECT_EQ(server_.counters().malformed, 1U);
  EXPECT_EQ(server_.counters().requests, 0U);
}

}  // namespace
}  // namespace caisson::http::test
