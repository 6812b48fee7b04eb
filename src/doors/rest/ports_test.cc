// A port of a sandbox, with a pair of sockets in place of the sandbox: what the program inside
// reads and what the client gets of its answer.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "doors/rest/fakes_test.h"
#include "sys/socket.h"

namespace caisson::rest {
namespace {

using fake::Ask;
using fake::error_of;
using fake::Exchange;
using fake::House;
using fake::sandbox_path;
using http::Method;

// The program inside has said all it will say before it is asked.
class Program {
 public:
  Program(House& house, std::string_view answer) {
    auto pair = sys::stream_pair();
    EXPECT_TRUE(pair);
    inside_ = std::move(pair->theirs);
    EXPECT_EQ(::send(inside_.get(), answer.data(), answer.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(answer.size()));
    ::shutdown(inside_.get(), SHUT_WR);
    auto outside = std::make_shared<UniqueFd>(std::move(pair->ours));
    house.fleet.on_connect = [outside]() -> Result<UniqueFd> { return std::move(*outside); };
  }
  std::string heard() {
    std::string text(1024UL * 1024, '\0');
    const ssize_t got = ::recv(inside_.get(), text.data(), text.size(), MSG_DONTWAIT);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }

 private:
  UniqueFd inside_;
};

std::unique_ptr<Exchange> get(House& house, std::string_view answer) {
  Program program(house, answer);
  return house.ask({.path = sandbox_path("/ports/8000/x"), .query = "token=theirs"});
}

TEST(Ports, PassesARequestAndItsAnswer) {
  House house;
  Program program(house,
                  "HTTP/1.1 201 Created\r\nContent-Length: 5\r\nContent-Type: text/html\r\n"
                  "Set-Cookie: a=b\r\nX-Own: 1\r\n\r\nhello");
  const auto answer = house.ask({.method = Method::Post,
                                 .path = sandbox_path("/ports/8000/a%20b"),
                                 .query = "q=1",
                                 .body = "in",
                                 .fields = {{"X-Mine", "2"}, {"Cookie", "secret"}},
                                 .json = false});
  EXPECT_EQ(answer->code, 201U);
  EXPECT_EQ(answer->body, "hello");
  EXPECT_EQ(answer->type, "text/html");
  EXPECT_EQ(answer->field("X-Own"), "1");
  EXPECT_EQ(answer->field("Set-Cookie"), "");
  EXPECT_NE(answer->field("Content-Security-Policy").find("sandbox"), std::string::npos);
  EXPECT_EQ(program.heard(),
            "POST /a%20b?q=1 HTTP/1.1\r\nHost: localhost:8000\r\nX-Mine: 2\r\n"
            "Content-Length: 2\r\nConnection: close\r\n\r\nin");
}

TEST(Ports, FramesTheAnswerAnew) {
  House house;
  auto answer = get(house,
                    "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(answer->code, 200U);
  EXPECT_EQ(answer->body, "abcde");
  EXPECT_FALSE(answer->length);
  EXPECT_EQ(answer->field("Transfer-Encoding"), "");
  answer = get(house, "HTTP/1.0 200 OK\r\n\r\nuntil the end");
  EXPECT_EQ(answer->body, "until the end");
  answer = get(house, "HTTP/1.1 304 Not Modified\r\n\r\n");
  EXPECT_EQ(answer->code, 304U);
  // What stands behind a whole answer is nobody's.
  answer = get(house, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\n\r\nevil");
  EXPECT_EQ(answer->body, "a");
}

TEST(Ports, RefusesWhatIsNotHttp) {
  std::string long_head = "HTTP/1.1 200 OK\r\n";
  while (long_head.size() < 70'000) long_head += "X-Long: " + std::string(1000, 'x') + "\r\n";
  std::string hints;
  for (int i = 0; i < 9; ++i) hints += "HTTP/1.1 103 Early Hints\r\n\r\n";
  for (const std::string& bad :
       {std::string("SSH-2.0-OpenSSH\r\n"), std::string(), std::string("HTTP/1.1 2"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nX : y\r\n\r\n"),
        std::string("HTTP/1.1 101 Switching Protocols\r\n\r\n"),
        std::string("HTTP/1.1 700 Odd\r\n\r\n"), long_head + "\r\n", hints}) {
    House house;
    const auto answer = get(house, bad);
    EXPECT_EQ(answer->code, 502U) << bad.substr(0, 100);
    EXPECT_EQ(error_of(*answer).at("code"), "Protocol");
  }
}

TEST(Ports, AnAnswerThatBreaksOffIsNotPassedAsWhole) {
  House house;
  const auto answer = get(house, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
  EXPECT_EQ(answer->body, "half");
  EXPECT_FALSE(answer->ended);
  EXPECT_TRUE(answer->closing);
}

TEST(Ports, OnlyPorts) {
  House house;
  for (const std::string port : {"0", "65536", "x", "-1", "80a"}) {
    EXPECT_EQ(house.ask({.path = sandbox_path("/ports/" + port + "/")})->code, 400U) << port;
  }
  EXPECT_EQ(house.ask({.path = sandbox_path("/ports/80")})->code, 502U);
}

}  // namespace
}  // namespace caisson::rest
