#include "doors/rest/proxy_head.h"

#include <gtest/gtest.h>

namespace caisson::rest {
namespace {

http::Request request_with(std::vector<http::Field> fields) {
  http::Request request;
  request.method_text = "GET";
  request.fields = std::move(fields);
  return request;
}

TEST(ProxyHead, TheGuestSeesNothingOfOurs) {
  http::Request request = request_with({{"Host", "box.example"},
                                        {"Authorization", "Bearer cais_secret"},
                                        {"x-api-key", "cais_secret"},
                                        {"Cookie", "s=cais_secret"},
                                        {"X-Forwarded-For", "1.2.3.4"},
                                        {"Forwarded", "for=1.2.3.4"},
                                        {"X-Real-IP", "1.2.3.4"},
                                        {"Connection", "close, X-Drop"},
                                        {"X-Drop", "1"},
                                        {"TE", "trailers"},
                                        {"Transfer-Encoding", "chunked"},
                                        {"Content-Length", "5"},
                                        {"Origin", "http://box.example"},
                                        {"Accept", "text/html"}});
  request.query = "a=1&token=theirs";
  const auto head = upstream_head(request, {8000, "/x/%2e%2e/y", false});
  ASSERT_TRUE(head);
  EXPECT_EQ(*head,
            "GET /x/%2e%2e/y?a=1&token=theirs HTTP/1.1\r\n"
            "Host: localhost:8000\r\n"
            "Accept: text/html\r\n"
            "Origin: http://localhost:8000\r\n"
            "Connection: close\r\n\r\n");
}

TEST(ProxyHead, FramesTheBodyAnew) {
  http::Request request = request_with({});
  request.method_text = "POST";
  request.has_body = true;
  EXPECT_NE(upstream_head(request, {1, "", false})->find("Transfer-Encoding: chunked\r\n"),
            std::string::npos);
  request.content_length = 5;
  const auto head = upstream_head(request, {1, "", false});
  EXPECT_TRUE(head->starts_with("POST / HTTP/1.1\r\n"));
  EXPECT_NE(head->find("Content-Length: 5\r\n"), std::string::npos);
  EXPECT_EQ(head->find("Transfer-Encoding"), std::string::npos);
}

TEST(ProxyHead, RefusesASecondRequestInTheAddress) {
  const http::Request request = request_with({});
  EXPECT_FALSE(upstream_head(request, {1, "/ HTTP/1.1\r\nX: y", false}));
  EXPECT_FALSE(upstream_head(request, {1, "/a b", false}));
}

TEST(ProxyHead, AWebSocketKeepsItsHandshakeButNotTheToken) {
  const http::Request request =
      request_with({{"Sec-WebSocket-Key", "k"},
                    {"Sec-WebSocket-Version", "13"},
                    {"Upgrade", "websocket"},
                    {"Connection", "Upgrade"},
                    {"Sec-WebSocket-Protocol", "caisson, caisson.token.cais_secret, chat"}});
  const auto head = upstream_head(request, {1, "/ws", true});
  ASSERT_TRUE(head);
  EXPECT_EQ(head->find("cais_secret"), std::string::npos);
  EXPECT_NE(head->find("Sec-WebSocket-Protocol: chat\r\n"), std::string::npos);
  EXPECT_NE(head->find("Sec-WebSocket-Key: k\r\n"), std::string::npos);
  EXPECT_NE(head->find("Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), std::string::npos);

  const auto ours = switch_fields({{"Sec-WebSocket-Accept", "a"}, {"Set-Cookie", "x"}}, request);
  ASSERT_EQ(ours.size(), 4U);
  EXPECT_EQ(ours[3].value, "caisson");
  const auto theirs = switch_fields({{"Sec-WebSocket-Protocol", "chat"}}, request);
  ASSERT_EQ(theirs.size(), 3U);
  EXPECT_EQ(theirs[2].value, "chat");
}

TEST(ProxyHead, TheAnswerCannotActOnOurOrigin) {
  const auto fields = answer_fields({{"Set-Cookie", "a=b; Domain=box.example"},
                                     {"Access-Control-Allow-Origin", "*"},
                                     {"Service-Worker-Allowed", "/"},
                                     {"Clear-Site-Data", "*"},
                                     {"Strict-Transport-Security", "max-age=1"},
                                     {"Transfer-Encoding", "chunked"},
                                     {"Content-Length", "1"},
                                     {"Connection", "X-Drop"},
                                     {"X-Drop", "1"},
                                     {"Content-Security-Policy", "default-src 'self'"},
                                     {"Vary", "a"},
                                     {"Vary", "b"},
                                     {"Location", "/login"}},
                                    8000, "/p");
  ASSERT_EQ(fields.size(), 3U);
  EXPECT_EQ(fields[0].name, "Content-Security-Policy");
  EXPECT_EQ(fields[0].value, "default-src 'self', " + std::string(kGuestPagePolicy));
  EXPECT_EQ(fields[1].value, "a, b");
  EXPECT_EQ(fields[2].value, "/p/login");
}

// A proxy in front obeys these: it would send a file of its own, or keep an answer for others.
TEST(ProxyHead, TheAnswerCannotSteerAProxyInFront) {
  const auto fields = answer_fields({{"X-Accel-Redirect", "/internal/secret"},
                                     {"x-accel-expires", "31536000"},
                                     {"X-ACCEL-Buffering", "no"},
                                     {"X-Accel-Limit-Rate", "1"},
                                     {"X-Accel-Charset", "utf-7"},
                                     {"X-Sendfile", "/etc/shadow"},
                                     {"X-Sendfile2", "/etc/shadow 0-"},
                                     {"X-Lighttpd-Send-File", "/etc/shadow"},
                                     {"X-LiteSpeed-Location", "/etc/shadow"},
                                     {"X-Reproxy-URL", "http://10.0.0.1/"},
                                     {"Surrogate-Control", "max-age=1"},
                                     {"X-Own", "1"}},
                                    8000, "/p");
  ASSERT_EQ(fields.size(), 2U);
  EXPECT_EQ(fields[0].name, "X-Own");
  EXPECT_EQ(fields[1].name, "Content-Security-Policy");
}

TEST(ProxyHead, RewritesOnlyItsOwnLocations) {
  const auto location = [](std::string from) {
    return answer_fields({{"Location", std::move(from)}}, 8000, "/p")[0].value;
  };
  EXPECT_EQ(location("http://localhost:8000/a"), "/p/a");
  EXPECT_EQ(location("http://127.0.0.1:8000"), "/p");
  EXPECT_EQ(location("http://localhost:80001/a"), "http://localhost:80001/a");
  EXPECT_EQ(location("//evil.example/"), "//evil.example/");
  EXPECT_EQ(location("https://example.com/"), "https://example.com/");
}

}  // namespace
}  // namespace caisson::rest
