// The rarer ways of a connection: hanging up, switching protocols, WebSocket, the server's end.
#include "http/connection.h"

#include <fcntl.h>

#include <atomic>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/loopback_test.h"

namespace caisson::http::test {
namespace {

namespace asio = boost::asio;

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

template <class T>
T wait_for(std::future<T> future) {
  if (future.wait_for(std::chrono::milliseconds(kWaitMilliseconds)) != std::future_status::ready) {
    throw std::runtime_error("nothing happened");
  }
  return future.get();
}

class Hangup : public testing::Test {
 protected:
  awaitable<void> serve(Exchange& exchange) {
    started_.set_value();
    co_await exchange.wait_for_hangup();
    gone_.set_value();
    co_await exchange.respond(200, "text/plain", "too late");
  }
  std::promise<void> started_;
  std::promise<void> gone_;
  LoopbackServer server_{[this](Exchange& exchange) { return serve(exchange); }};
};

TEST_F(Hangup, IsSeenWhileTheHandlerRuns) {
  RawClient client(server_.port());
  client.send(kGet);
  wait_for(started_.get_future());
  client.close();
  wait_for(gone_.get_future());
}

TEST_F(Hangup, IsSeenBehindPipelinedBytes) {
  RawClient client(server_.port());
  client.send(kGet);
  wait_for(started_.get_future());
  client.send(std::string(5, '\n'));
  client.close();
  wait_for(gone_.get_future());
}

TEST(Connection, WaitingForAHangupEatsNothing) {
  const auto handler = [](Exchange& exchange) -> awaitable<void> {
    using namespace asio::experimental::awaitable_operators;
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, std::chrono::milliseconds(50));
    auto waited = co_await (timer.async_wait(asio::use_awaitable) || exchange.wait_for_hangup());
    co_await exchange.respond(200, "text/plain", waited.index() == 0 ? "there" : "gone");
  };
  LoopbackServer server(handler);
  RawClient client(server.port());
  client.send(kGet);
  client.send(kGet);
  EXPECT_EQ(client.reply().body, "there");
  EXPECT_EQ(client.reply().body, "there");
  EXPECT_EQ(client.ask(kGet).body, "there");
}

awaitable<void> raw_echo(Exchange& exchange) {
  exchange.set("Connection", "Upgrade");
  exchange.set("Upgrade", "lines");
  (void)co_await exchange.begin(101, "", std::nullopt);
  std::array<std::byte, 100> bytes{};
  for (;;) {
    const std::span<std::byte> room(bytes);
    auto got = co_await exchange.raw_read(room);
    if (!got || *got == 0) co_return;
    (void)co_await exchange.raw_write(room.first(*got));
  }
}

TEST(Connection, SwitchesProtocols) {
  LoopbackServer server(raw_echo);
  RawClient client(server.port());
  client.send(std::string(kGet) + "early");
  const std::string head = client.until("\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n")) << head;
  EXPECT_NE(head.find("Upgrade: lines\r\n"), std::string::npos);
  EXPECT_EQ(head.find("Content-Length"), std::string::npos);
  EXPECT_EQ(head.find("Transfer-Encoding"), std::string::npos);
  EXPECT_EQ(client.take(5), "early");
  client.send("later");
  EXPECT_EQ(client.take(5), "later");
  client.finish();
  EXPECT_TRUE(client.closed());
}

awaitable<std::string> hear(Exchange& exchange, std::size_t bytes) {
  std::string heard;
  while (heard.size() < bytes) {
    std::array<std::byte, 1> byte{};
    const auto got = co_await exchange.raw_read(byte);
    if (!got) co_return "failed: " + got.error().message;
    if (*got == 0) co_return "ended";
    heard += static_cast<char>(byte[0]);
  }
  co_return heard;
}

// A peer that reads nothing may still speak.
TEST(Connection, ReadsWhileItsWritingIsHeldUp) {
  std::promise<std::string> heard;
  const auto handler = [&heard](Exchange& exchange) -> awaitable<void> {
    using namespace asio::experimental::awaitable_operators;
    exchange.set("Connection", "Upgrade");
    exchange.set("Upgrade", "lines");
    (void)co_await exchange.begin(101, "", std::nullopt);
    const std::vector<std::byte> flood(64UL << 20U);  // more than any buffer of the kernel's
    const std::span<const std::byte> all(flood);
    const auto first = co_await (exchange.raw_write(all) || hear(exchange, 2));
    heard.set_value(first.index() == 1 ? std::get<1>(first) : "all was written");
  };
  LoopbackServer server(handler);
  RawClient client(server.port());
  client.send(kGet);
  (void)client.until("\r\n\r\n");
  client.send("ab");
  EXPECT_EQ(wait_for(heard.get_future()), "ab");
}

constexpr std::string_view kUpgrade =
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

awaitable<void> ws_echo(Exchange& exchange) {
  auto socket = co_await exchange.accept_websocket("words");
  if (!socket) {
    co_await exchange.respond(400, "text/plain", socket.error().message);
    co_return;
  }
  for (;;) {
    auto message = co_await (*socket)->read();
    if (!message || !*message) co_return;
    if ((*message)->bytes == "bye") {
      co_await (*socket)->close(4001, "as you wish");
      co_return;
    }
    (void)co_await (*socket)->write((*message)->bytes, (*message)->text);
  }
}

// A client's frame, masked with zeros; short payloads only.
std::string frame(int opcode, std::string_view payload, bool last = true) {
  std::string out;
  out.push_back(static_cast<char>((last ? 0x80 : 0) | opcode));
  out.push_back(static_cast<char>(0x80 | payload.size()));
  out.append(4, '\0');
  out.append(payload);
  return out;
}

class Ws : public testing::Test {
 protected:
  static Limits small() {
    Limits limits;
    limits.websocket_message_bytes_max = 100;
    limits.idle_seconds = 2;
    return limits;
  }
  void open() {
    client_.send(kUpgrade);
    const std::string head = client_.until("\r\n\r\n");
    EXPECT_TRUE(head.starts_with("HTTP/1.1 101 ")) << head;
    EXPECT_NE(head.find("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), std::string::npos);
    EXPECT_NE(head.find("Sec-WebSocket-Protocol: words\r\n"), std::string::npos);
    EXPECT_NE(head.find("X-Request-Id: "), std::string::npos);
  }
  LoopbackServer server_{ws_echo, small()};
  RawClient client_{server_.port()};
};

TEST_F(Ws, EchoesTextAndBinary) {
  open();
  client_.send(frame(1, "hello"));
  EXPECT_EQ(client_.take(7), "\x81\x05hello");
  client_.send(frame(2, "by", false) + frame(0, "tes"));
  EXPECT_EQ(client_.take(7),
            "\x82\x05"
            "bytes");
  client_.send(frame(9, "?"));
  EXPECT_EQ(client_.take(3), "\x8a\x01?");
}

TEST_F(Ws, CloseCodesGoBothWays) {
  open();
  client_.send(frame(1, "bye"));
  EXPECT_EQ(client_.take(15),
            "\x88\x0d\x0f\xa1"
            "as you wish");
  client_.send(frame(8, "\x0f\xa1"));
  EXPECT_TRUE(client_.closed());
}

TEST_F(Ws, PeerClosesAndIsAnswered) {
  open();
  client_.send(frame(8, "\x03\xe8"));
  EXPECT_EQ(client_.take(4), "\x88\x02\x03\xe8");
  EXPECT_TRUE(client_.closed());
}

TEST_F(Ws, MessagesHaveALimit) {
  open();
  client_.send(frame(2, std::string(100, 'x')));
  EXPECT_EQ(client_.take(102).size(), 102U);
  client_.send(frame(2, std::string(60, 'x'), false) + frame(0, std::string(60, 'x')));
  EXPECT_EQ(client_.take(4).substr(2), "\x03\xf1") << "1009, too big";
  EXPECT_TRUE(client_.closed());
}

TEST_F(Ws, BadFramesEndTheConnection) {
  for (const std::string& bad :
       {std::string("\x81\x01x"), frame(1, "\xff\xfe"), frame(3, "x"), frame(0, "x")}) {
    RawClient client(server_.port());
    client.send(kUpgrade);
    EXPECT_FALSE(client.until("\r\n\r\n").empty());
    client.send(bad);
    const std::string close = client.rest();
    EXPECT_EQ(close.substr(0, 1), "\x88") << bad;
  }
}

TEST_F(Ws, ASilentPeerIsAskedAndThenGone) {
  open();
  EXPECT_EQ(client_.take(2).substr(0, 1), "\x89") << "a ping";
  EXPECT_TRUE(client_.closed());
}

TEST_F(Ws, OnlyAWholeHandshakeIsAccepted) {
  EXPECT_EQ(client_.ask(kGet).status, 400U);
  std::string old(kUpgrade);
  old.replace(old.find("13\r\n"), 2, "12");
  EXPECT_EQ(client_.ask(old).status, 400U);
  std::string no_key(kUpgrade);
  no_key.replace(no_key.find("dGhl"), 4, "");
  EXPECT_EQ(client_.ask(no_key).status, 400U);
  EXPECT_EQ(client_.ask(std::string(kUpgrade) + frame(1, "early")).status, 400U);
}

class Stop : public testing::Test {
 protected:
  awaitable<void> serve(Exchange& exchange) {
    if (exchange.request().path == "/quick") {
      co_await exchange.respond(200, "text/plain", "quick");
      co_return;
    }
    started_.set_value();
    asio::steady_timer timer(co_await asio::this_coro::executor,
                             asio::steady_timer::duration::max());
    timer_ = &timer;
    boost::system::error_code ec;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    co_await exchange.respond(200, "text/plain", "slow");
  }
  void stop(std::promise<void>& done) {
    server_.on_thread([&] { server_.server().stop([&done] { done.set_value(); }); });
  }
  asio::steady_timer* timer_ = nullptr;
  std::promise<void> started_;
  std::promise<void> done_;
  LoopbackServer server_{[this](Exchange& exchange) { return serve(exchange); }};
};

TEST_F(Stop, LetsAnswersOutAndClosesTheRest) {
  RawClient idle(server_.port());
  EXPECT_EQ(idle.ask("GET /quick HTTP/1.1\r\nHost: a\r\n\r\n").body, "quick");
  RawClient busy(server_.port());
  busy.send(kGet);
  wait_for(started_.get_future());
  stop(done_);
  EXPECT_TRUE(idle.closed());
  auto done = done_.get_future();
  EXPECT_EQ(done.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  server_.on_thread([this] { timer_->cancel(); });
  const Reply reply = busy.reply();
  EXPECT_EQ(reply.body, "slow");
  EXPECT_TRUE(reply.has("Connection: close"));
  EXPECT_TRUE(busy.closed());
  busy.close();
  wait_for(std::move(done));
}

TEST_F(Stop, TheSecondCallCuts) {
  RawClient busy(server_.port());
  busy.send(kGet);
  wait_for(started_.get_future());
  stop(done_);
  server_.on_thread([this] { server_.server().stop(nullptr); });
  EXPECT_EQ(busy.rest(), "");
  EXPECT_TRUE(busy.closed());
  server_.on_thread([this] { timer_->cancel(); });
  wait_for(done_.get_future());
}

TEST_F(Stop, WithoutConnectionsIsAtOnce) {
  stop(done_);
  wait_for(done_.get_future());
}

}  // namespace
}  // namespace caisson::http::test
