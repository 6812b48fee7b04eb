// A real server in front, and a pair of sockets in place of the sandbox: the test is the client on
// one side and the program on the other.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>

#include "doors/proxy/answer.h"
#include "doors/proxy/proxy.h"
#include "http/loopback_test.h"
#include "sys/socket.h"

namespace caisson::proxy {
namespace {

using http::test::LoopbackServer;
using http::test::RawClient;

constexpr std::string_view kGet = "GET /x?a=%20 HTTP/1.1\r\nHost: a.vhost.example\r\n\r\n";

class Pass : public testing::Test {
 protected:
  Pass() {
    auto pair = sys::stream_pair();
    EXPECT_TRUE(pair);
    ours_ = std::move(pair->ours);
    program_ = std::make_unique<RawClient>(std::move(pair->theirs));
    server_ = std::make_unique<LoopbackServer>(
        [this](http::Exchange& exchange) { return serve(exchange); });
    client_ = std::make_unique<RawClient>(server_->port());
  }
  ~Pass() override { server_.reset(); }

  awaitable<void> serve(http::Exchange& exchange) {
    const std::string target = exchange.request().target;
    Passage passage;
    passage.port = 8000;
    passage.raw_tail = target;
    passage.place = place_;
    passage.host = "a.vhost.example";
    passage.answer_timeout = answer_timeout_;
    auto done = co_await pass(exchange, std::move(ours_), std::move(passage));
    if (!done && exchange.begun()) exchange.close_after();
    if (!done && !exchange.begun()) {
      co_await exchange.respond(502, "text/plain", done.error().message);
    }
    ended_.set_value(done ? "passed" : std::string(to_string(done.error().code)));
  }
  std::string outcome() { return ended_.get_future().get(); }

  UniqueFd ours_;
  std::unique_ptr<RawClient> program_;
  std::unique_ptr<LoopbackServer> server_;
  std::unique_ptr<RawClient> client_;
  seconds answer_timeout_{300};
  Place place_ = Place::OwnHost;
  std::promise<std::string> ended_;
};

TEST_F(Pass, ABodilessRequestHasNoFraming) {
  client_->send(kGet);
  EXPECT_EQ(program_->until("\r\n\r\n"),
            "GET /x?a=%20 HTTP/1.1\r\nHost: a.vhost.example\r\nX-Forwarded-For: 127.0.0.1\r\n"
            "X-Forwarded-Host: a.vhost.example\r\nX-Forwarded-Proto: http\r\n"
            "Connection: close\r\n\r\n");
  program_->send(
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: never\r\nServer: theirs\r\n"
      "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nhello");
  const auto reply = client_->reply();
  EXPECT_EQ(reply.status, 200U);
  EXPECT_EQ(reply.body, "hello");
  EXPECT_FALSE(reply.has("theirs"));
  EXPECT_FALSE(reply.has("never"));
  EXPECT_TRUE(reply.has("Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n"));
  EXPECT_EQ(reply.head.find("Server: "), reply.head.rfind("Server: "));
}

// What is behind a whole answer is nobody's, and the client's connection goes on.
TEST_F(Pass, NothingBehindALengthPasses) {
  client_->send(kGet);
  (void)program_->until("\r\n\r\n");
  program_->send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client_->until("\r\n\r\n").substr(0, 15), "HTTP/1.1 200 OK");
  program_->send("okHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
  EXPECT_EQ(client_->take(2), "ok");
  client_->send("x");
  client_->finish();
  EXPECT_EQ(client_->rest().find("evil"), std::string::npos);
}

TEST_F(Pass, EachEventPassesAsItComes) {
  client_->send(kGet);
  (void)program_->until("\r\n\r\n");
  program_->send(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_NE(client_->until("\r\n\r\n").find("Transfer-Encoding: chunked"), std::string::npos);
  for (const char* event : {"data: 1\n\n", "data: 2\n\n"}) {
    program_->send("9\r\n" + std::string(event) + "\r\n");
    EXPECT_EQ(client_->until("\n\n"), "9\r\n" + std::string(event));
    EXPECT_EQ(client_->take(2), "\r\n");
  }
  program_->send("0\r\n\r\n");
  EXPECT_EQ(client_->take(5), "0\r\n\r\n");
}

TEST_F(Pass, ALargeAnswerIsWhole) {
  constexpr std::size_t kBytes = 8UL * 1024 * 1024 + 1;
  std::string large(kBytes, 'a');
  for (std::size_t i = 0; i < large.size(); i += 1000) large[i] = static_cast<char>('b' + i % 20);
  client_->send(kGet);
  (void)program_->until("\r\n\r\n");
  std::thread writer([&] {
    program_->send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kBytes) + "\r\n\r\n");
    program_->send(large);
  });
  const auto reply = client_->reply();
  writer.join();
  EXPECT_TRUE(reply.body == large);
}

TEST_F(Pass, ALargeChunkedAnswerIsWhole) {
  constexpr int kChunks = 400;
  const std::string chunk(10000, 'c');
  client_->send("GET / HTTP/1.0\r\nHost: a.vhost.example\r\n\r\n");
  (void)program_->until("\r\n\r\n");
  std::thread writer([&] {
    program_->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < kChunks; ++i) program_->send("2710\r\n" + chunk + "\r\n");
    program_->send("0\r\n\r\n");
  });
  EXPECT_NE(client_->until("\r\n\r\n"), "");
  EXPECT_EQ(client_->rest().size(), chunk.size() * kChunks);
  writer.join();
}

TEST_F(Pass, AnAnswerThatBreaksOffIsCut) {
  client_->send(kGet);
  (void)program_->until("\r\n\r\n");
  program_->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  program_->finish();
  (void)client_->until("\r\n\r\n");
  EXPECT_EQ(client_->rest(), "3\r\nabc\r\n");
  EXPECT_EQ(outcome(), "Protocol");
}

TEST_F(Pass, AMalformedChunkIsCut) {
  client_->send(kGet);
  (void)program_->until("\r\n\r\n");
  program_->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX");
  (void)client_->until("\r\n\r\n");
  EXPECT_EQ(client_->rest().find("0\r\n\r\n"), std::string::npos);
}

TEST_F(Pass, ACodingThatNobodyAskedForIsRefused) {
  client_->send(kGet);
  (void)program_->until("\r\n\r\n");
  program_->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(client_->reply().status, 502U);
}

TEST_F(Pass, AHeadHasALimit) {
  client_->send(kGet);
  (void)program_->until("\r\n\r\n");
  std::string head = "HTTP/1.1 200 OK\r\n";
  while (head.size() <= kHeadBytesMax) head += "X-Long: " + std::string(1000, 'x') + "\r\n";
  program_->send(head);
  EXPECT_EQ(client_->reply().status, 502U);
}

// Ten thousand short ones fit into a head that is not too long.
TEST_F(Pass, AHeadHasNotTooManyFields) {
  client_->send(kGet);
  (void)program_->until("\r\n\r\n");
  std::string head = "HTTP/1.1 200 OK\r\n";
  for (std::size_t i = 0; i <= kFieldsMax; ++i) head += "x" + std::to_string(i) + ":\r\n";
  program_->send(head + "\r\n");
  EXPECT_EQ(client_->reply().status, 502U);
}

TEST_F(Pass, ConnectionDoesNotNameTooMuch) {
  client_->send(kGet);
  (void)program_->until("\r\n\r\n");
  std::string names = "a";
  while (names.size() <= kConnectionBytesMax) names += ",a";
  program_->send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: " + names + "\r\n\r\n");
  EXPECT_EQ(client_->reply().status, 502U);
}

TEST_F(Pass, NoPageOfOursRunsWhatASandboxSends) {
  place_ = Place::UnderPath;
  client_->send(
      "GET /x.js HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: same-origin\r\n"
      "Sec-Fetch-Dest: script\r\n\r\n");
  EXPECT_EQ(client_->reply().status, 502U);
  EXPECT_EQ(outcome(), "Denied");
  EXPECT_TRUE(program_->closed()) << "it was not even asked";
}

// Its own page, which has no origin.
TEST_F(Pass, APageOfASandboxRunsItsOwnScripts) {
  place_ = Place::UnderPath;
  client_->send(
      "GET /x.js HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: cross-site\r\n"
      "Sec-Fetch-Dest: script\r\n\r\n");
  (void)program_->until("\r\n\r\n");
  program_->send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_EQ(client_->reply().body, "ok");
}

TEST_F(Pass, ABodyGoesInAsItCame) {
  client_->send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  EXPECT_NE(program_->until("\r\n\r\n").find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(program_->take(8), "3\r\nabc\r\n");
  client_->send("0\r\n\r\n");
  EXPECT_EQ(program_->until("0\r\n\r\n").substr(0, 5), "0\r\n\r\n");
  program_->send("HTTP/1.1 204 No Content\r\nX-Own: 1\r\n\r\n");
  const auto reply = client_->reply();
  EXPECT_EQ(reply.status, 204U);
  EXPECT_TRUE(reply.has("X-Own: 1"));
}

// The rest of the body is of no use to anybody; the answer is.
TEST_F(Pass, AProgramMayAnswerBeforeItHasReadEverything) {
  client_->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nfirst");
  (void)program_->until("first");
  program_->send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
  program_->finish();
  (void)::shutdown(program_->fd(), SHUT_RD);
  client_->send(std::string(100'000, 'x'));
  EXPECT_EQ(client_->reply().status, 413U);
}

TEST_F(Pass, ASilentProgramIsGivenUp) {
  answer_timeout_ = seconds(0);
  client_->send(kGet);
  EXPECT_EQ(client_->reply().status, 502U);
  EXPECT_EQ(outcome(), "TimedOut");
}

TEST_F(Pass, AClientWhoLeavesTakesHisPlaceAlong) {
  client_->send(kGet);
  (void)program_->until("\r\n\r\n");
  program_->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
  (void)client_->until("1\r\na\r\n");
  client_->close();
  EXPECT_EQ(outcome(), "Gone");
  EXPECT_TRUE(program_->closed());
}

TEST_F(Pass, AWebSocketIsBareBytesOnceBothAgree) {
  client_->send(
      "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Key: aaaaaaaaaaaaaaaaaaaaaa==\r\nSec-WebSocket-Version: 13\r\n\r\n");
  EXPECT_NE(program_->until("\r\n\r\n").find("Connection: Upgrade\r\nUpgrade: websocket\r\n"),
            std::string::npos);
  program_->send(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Accept: x\r\nSet-Cookie: no=1\r\n\r\nfirst frame");
  const std::string head = client_->until("\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 101 "));
  EXPECT_EQ(head.find("Set-Cookie"), std::string::npos);
  EXPECT_EQ(client_->take(11), "first frame");
  client_->send("ping");
  EXPECT_EQ(program_->take(4), "ping");
  program_->send("pong");
  EXPECT_EQ(client_->take(4), "pong");
  program_->finish();
  EXPECT_TRUE(client_->closed());
}

TEST_F(Pass, NobodySwitchesUnasked) {
  client_->send(kGet);
  (void)program_->until("\r\n\r\n");
  program_->send("HTTP/1.1 101 Switching Protocols\r\n\r\n");
  EXPECT_EQ(client_->reply().status, 502U);
}

TEST_F(Pass, AHeadRequestGetsTheLengthAndNoBody) {
  client_->send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
  (void)program_->until("\r\n\r\n");
  program_->send("HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n");
  const auto reply = client_->reply(true);
  EXPECT_TRUE(reply.has("Content-Length: 12345"));
}

}  // namespace
}  // namespace caisson::proxy
