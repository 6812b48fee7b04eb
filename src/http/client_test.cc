// The blocking client against our own server, and against servers that misbehave.
#include "http/client.h"

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <filesystem>

#include "http/client_link.h"
#include "http/event_stream.h"
#include "http/loopback_test.h"

namespace caisson::http::test {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

awaitable<void> echo_socket(Exchange& exchange) {
  auto socket = co_await exchange.accept_websocket("words");
  if (!socket) co_return;
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

awaitable<void> count_upload(Exchange& exchange) {
  std::vector<std::byte> block(65536);
  std::size_t total = 0;
  for (;;) {
    const std::span<std::byte> room(block);
    auto got = co_await exchange.read_some(room);
    if (!got || *got == 0) break;
    total += *got;
  }
  co_await exchange.respond(200, "text/plain", std::to_string(total));
}

awaitable<void> send_events(Exchange& exchange) {
  (void)co_await exchange.begin(200, "text/event-stream", std::nullopt);
  (void)co_await exchange.write(bytes_of(": hello\n\nid: 1\nevent: a\nda"));
  (void)co_await exchange.write(bytes_of("ta: x\ndata: y\n\ndata: z\r\n\r\n"));
  if (exchange.request().query == "open") {
    co_await exchange.wait_for_hangup();
    co_return;
  }
  (void)co_await exchange.end();
}

awaitable<void> route(Exchange& exchange) {
  const std::string path = exchange.request().path;
  if (path == "/ws") {
    co_await echo_socket(exchange);
  } else if (path == "/count") {
    co_await count_upload(exchange);
  } else if (path == "/events") {
    co_await send_events(exchange);
  } else if (path == "/refuse") {
    co_await exchange.respond(413, "text/plain", "no");
  } else if (path == "/stream") {
    const std::vector<std::byte> block(100000);
    (void)co_await exchange.begin(200, "text/plain", std::nullopt);
    for (int i = 0; i < 30; ++i) (void)co_await exchange.write(block);
    (void)co_await exchange.end();
  } else {
    auto body = co_await read_all(exchange, 1000);
    exchange.set("X-Peer", exchange.request().peer.address);
    const std::string text = exchange.request().method_text + " " + exchange.request().target +
                             " " + std::string(exchange.request().field("Authorization")) + " " +
                             std::string(exchange.request().field("X-A")) + " " +
                             body.value_or("?");
    co_await exchange.respond(path == "/404" ? 404 : 200, "text/plain", text);
  }
}

class HttpClient : public testing::Test {
 protected:
  Client open() {
    ClientOptions options;
    options.token = "secret";
    return Client::make("http://127.0.0.1:" + std::to_string(server_.port()), options).value();
  }
  LoopbackServer server_{route};
  Client client_ = open();
};

TEST_F(HttpClient, AsksAgainOnTheSameConnection) {
  const std::vector<Field> fields{{"X-A", "b"}};
  auto answer = client_.request("POST", "/x?y", fields, "body");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "POST /x?y Bearer secret b body");
  EXPECT_EQ(answer->field("x-peer"), "127.0.0.1");
  EXPECT_EQ(client_.request("HEAD", "/x", {}, "")->status, 200U);
  EXPECT_EQ(client_.request("GET", "/404", {}, "")->body, "GET /404 Bearer secret  ");
  EXPECT_EQ(server_.counters().connections, 1U);
}

TEST_F(HttpClient, ConnectsAgainWhenTheServerHasClosed) {
  EXPECT_EQ(client_.request("GET", "/", {}, "")->status, 200U);
  server_.on_thread([this] { server_.server().stop(nullptr); });
  ASSERT_TRUE(server_.wait_until([](const ServerCounters& now) { return now.open == 0; }));
  const auto answer = client_.request("GET", "/", {}, "");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::LauncherGone);
  EXPECT_EQ(answer.error().sys_errno, ECONNREFUSED);
}

TEST_F(HttpClient, BadWordsAreRefusedHere) {
  for (const char* url : {"", "ftp://a", "http://", "http://a:x", "http://a:0", "http://a:70000",
                          "http://a/b", "http://u@a", "http://[::1", "http://a b"}) {
    const auto made = Client::make(url, {});
    ASSERT_FALSE(made) << url;
    EXPECT_EQ(made.error().code, Errc::InvalidArgument) << url;
  }
  const auto https = Client::make("https://a", {});
  ASSERT_FALSE(https);
  EXPECT_EQ(https.error().code, Errc::Unsupported);
  EXPECT_NE(https.error().message.find("tunnel"), std::string::npos);
  EXPECT_FALSE(client_.request("GET", "no", {}, ""));
  EXPECT_FALSE(client_.request("GET", "/a b", {}, ""));
  EXPECT_FALSE(client_.request("G T", "/", {}, ""));
  const std::vector<Field> evil{{"X", "a\r\nY: b"}};
  EXPECT_FALSE(client_.request("GET", "/", evil, ""));
  ClientOptions options;
  options.token = "a\nb";
  EXPECT_FALSE(Client::make("http://a", options));
}

TEST_F(HttpClient, DownloadsByPieces) {
  std::size_t total = 0;
  unsigned status = 0;
  const auto answer = client_.download(
      "GET", "/stream", {}, "", [&](const ClientAnswer& head) { status = head.status; },
      [&](std::span<const std::byte> bytes) -> Result<void> {
        total += bytes.size();
        return {};
      });
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(status, 200U);
  EXPECT_EQ(total, 3000000U);
  const auto stopped = client_.download("GET", "/stream", {}, "", {}, [](auto) -> Result<void> {
    return failure(Errc::Exhausted, "the disk is full");
  });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().message, "the disk is full");
  EXPECT_EQ(client_.request("GET", "/stream", {}, "", 1000).error().code, Errc::TooLarge);
  EXPECT_EQ(client_.request("GET", "/", {}, "")->status, 200U) << "the next call is unharmed";
}

Client::Source blocks(std::size_t total) {
  return [left = total](std::span<std::byte> out) mutable -> Result<std::size_t> {
    const std::size_t size = std::min(left, out.size());
    left -= size;
    return size;
  };
}

TEST_F(HttpClient, Uploads) {
  EXPECT_EQ(client_.upload("PUT", "/count", {}, 5000000, blocks(5000000))->body, "5000000");
  EXPECT_EQ(client_.upload("PUT", "/count", {}, std::nullopt, blocks(3000000))->body, "3000000");
  EXPECT_EQ(client_.upload("PUT", "/count", {}, std::nullopt, blocks(0))->body, "0");
  EXPECT_EQ(client_.upload("PUT", "/count", {}, 10, blocks(11)).error().code,
            Errc::InvalidArgument);
  EXPECT_EQ(client_.upload("PUT", "/count", {}, 10, blocks(9)).error().code, Errc::InvalidArgument);
  const auto early = client_.upload("PUT", "/refuse", {}, 1000000000, blocks(1000000000));
  ASSERT_TRUE(early) << early.error().message;
  EXPECT_EQ(early->status, 413U);
  EXPECT_EQ(early->body, "no");
  EXPECT_EQ(client_.request("GET", "/", {}, "")->status, 200U);
}

TEST_F(HttpClient, ReadsEvents) {
  std::vector<std::string> seen;
  const auto take = [&seen](const ClientEvent& event) {
    seen.push_back(event.id + "|" + event.name + "|" + event.data);
    return seen.size() < 3;
  };
  EXPECT_EQ(client_.events("/events", {}, std::nullopt, take)->status, 200U);
  const std::vector<std::string> want{"1|a|x\ny", "1||z"};
  EXPECT_EQ(seen, want);
  // A stream that stays open ends when `take` has enough, or after a while of silence.
  EXPECT_TRUE(client_.events("/events?open", {}, std::nullopt, take));
  EXPECT_EQ(seen.size(), 3U);
  seen.clear();
  EXPECT_TRUE(client_.events("/events?open", {}, milliseconds(10), take));
  EXPECT_EQ(client_.events("/404", {}, std::nullopt, take)->status, 404U);
}

TEST_F(HttpClient, SpeaksWebSocket) {
  auto upgrade = client_.websocket("/ws", {}, "words");
  ASSERT_TRUE(upgrade) << upgrade.error().message;
  ASSERT_TRUE(upgrade->socket);
  ClientSocket& socket = *upgrade->socket;
  EXPECT_FALSE(socket.next()->has_value());
  for (const std::size_t size : {0UL, 125UL, 126UL, 65535UL, 65536UL, 1000000UL}) {
    const std::string text(size, 'x');
    ASSERT_TRUE(socket.send(text, size % 2 == 0));
    const auto message = socket.wait(kWaitMilliseconds);
    ASSERT_TRUE(message && *message) << size;
    EXPECT_EQ((*message)->bytes, text);
    EXPECT_EQ((*message)->text, size % 2 == 0);
  }
  ASSERT_TRUE(socket.send("bye", true));
  EXPECT_FALSE(socket.wait(kWaitMilliseconds)->has_value());
  EXPECT_TRUE(socket.closed());
  EXPECT_EQ(socket.close_code(), 4001);
  EXPECT_EQ(socket.close_reason(), "as you wish");
  EXPECT_FALSE(socket.send("more", true));
}

TEST_F(HttpClient, ClosesAWebSocket) {
  auto upgrade = client_.websocket("/ws", {}, "");
  ASSERT_TRUE(upgrade && upgrade->socket);
  EXPECT_TRUE(upgrade->socket->close(1000, "done"));
  EXPECT_FALSE(upgrade->socket->wait(kWaitMilliseconds)->has_value());
  EXPECT_EQ(upgrade->socket->close_code(), 1000);
  const auto refused = client_.websocket("/404", {}, "");
  ASSERT_TRUE(refused);
  EXPECT_FALSE(refused->socket);
  EXPECT_EQ(refused->answer.status, 404U);
}

TEST(ClientSocket, HostileFramesAreRefused) {
  for (const std::string& bytes :
       {std::string("\xc1\x00", 2), std::string("\x81\x80\0\0\0\0", 6), std::string("\x80\x00", 2),
        std::string("\x83\x00", 2), std::string("\x09\x00", 2), std::string("\x89\x7e\x00\x01", 4),
        std::string("\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", 10)}) {
    std::array<int, 2> pair{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    const UniqueFd other(pair[1]);
    ClientSocket socket(UniqueFd(pair[0]), bytes);
    const auto message = socket.next();
    ASSERT_FALSE(message);
    EXPECT_EQ(message.error().code, Errc::Protocol);
  }
}

// The queue is bounded: a server that reads nothing cannot make the command swallow all memory.
TEST(ClientSocket, TheQueueHasALimit) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  const UniqueFd other(pair[1]);
  ClientSocket socket(UniqueFd(pair[0]), "");
  const std::string block(1000000, 'x');
  Result<void> sent;
  for (int i = 0; i < 40 && sent; ++i) sent = socket.send(block, false);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Errc::Exhausted);
  EXPECT_LE(socket.waiting(), kClientQueueBytesMax + 100);
}

TEST(ClientLink, HostileAnswersAreRefused) {
  for (const char* head :
       {"HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "x\r\n\r\n", "HTTP/1.1 200OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"}) {
    EXPECT_FALSE(parse_answer_head(head)) << head;
  }
  for (const std::string& bytes :
       {std::string(kAnswerHeadBytesMax + 1000, 'x'), std::string("HTTP/1.1 200 OK\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n")}) {
    std::array<int, 2> pair{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    ClientLink link(UniqueFd(pair[0]), std::nullopt);
    RawClient server{UniqueFd(pair[1])};
    server.send(bytes);
    server.close();
    auto answer = link.read_head();
    const auto all = [](std::string_view) -> Result<bool> { return true; };
    if (answer) EXPECT_FALSE(link.read_body("GET", *answer, all)) << bytes;
  }
}

TEST(EventStream, AnEventHasALimit) {
  EventStream stream;
  const std::string block = "data: " + std::string(1000000, 'x') + "\n";
  Result<bool> fed = true;
  for (int i = 0; i < 20 && fed; ++i)
    fed = stream.feed(block, [](const ClientEvent&) { return true; });
  EXPECT_FALSE(fed);
}

class HttpListeners : public testing::Test {
 protected:
  HttpListeners() {
    char name[] = "/tmp/caisson-http-XXXXXX";
    if (::mkdtemp(name) == nullptr) throw std::runtime_error("no folder");
    folder_ = name;
  }
  ~HttpListeners() override { std::filesystem::remove_all(folder_); }
  void add(UniqueFd fd) {
    server_.on_thread([&] { EXPECT_TRUE(server_.server().listen(std::move(fd))); });
  }
  std::string folder_;
  LoopbackServer server_{route};
};

TEST_F(HttpListeners, Unix) {
  const std::string path = folder_ + "/socket";
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(fd);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(fd.get(), 8), 0);
  add(std::move(fd));
  Client client = Client::make("unix:" + path, {}).value();
  const auto answer = client.request("GET", "/", {}, "");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->field("X-Peer"), "unix");
  auto upgrade = client.websocket("/ws", {}, "");
  ASSERT_TRUE(upgrade && upgrade->socket);
  ASSERT_TRUE(upgrade->socket->send("hi", true));
  EXPECT_EQ(upgrade->socket->wait(kWaitMilliseconds)->value().bytes, "hi");
}

TEST_F(HttpListeners, Ipv6) {
  UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_any;
  socklen_t size = sizeof address;
  if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    GTEST_SKIP() << "no IPv6 here";
  }
  ASSERT_EQ(::listen(fd.get(), 8), 0);
  ASSERT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  add(std::move(fd));
  const std::string port = std::to_string(ntohs(address.sin6_port));
  Client v6 = Client::make("http://[::1]:" + port + "/", {}).value();
  EXPECT_EQ(v6.request("GET", "/", {}, "")->field("X-Peer"), "::1");
  Client mapped = Client::make("http://127.0.0.1:" + port, {}).value();
  EXPECT_EQ(mapped.request("GET", "/", {}, "")->field("X-Peer"), "127.0.0.1");
}

TEST_F(HttpListeners, OnlyListeningSockets) {
  server_.on_thread([&] {
    EXPECT_FALSE(server_.server().listen(UniqueFd()));
    EXPECT_FALSE(
        server_.server().listen(UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))));
  });
}

}  // namespace
}  // namespace caisson::http::test
