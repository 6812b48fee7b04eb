#include "doors/proxy/head.h"

#include <gtest/gtest.h>

namespace caisson::proxy {
namespace {

http::Request request_with(std::vector<http::Field> fields) {
  http::Request request;
  request.method_text = "GET";
  request.fields = std::move(fields);
  return request;
}

Passage under_path(std::string_view tail, std::uint16_t port = 8000) {
  Passage passage;
  passage.port = port;
  passage.raw_tail = tail;
  passage.prefix = "/p";
  return passage;
}

Passage own_host(std::string_view tail) {
  Passage passage;
  passage.port = 8000;
  passage.raw_tail = tail;
  passage.place = Place::OwnHost;
  passage.host = "a.vhost.example";
  passage.scheme = "https";
  passage.own_cookies = {"__Host-caisson-preview", "caisson-preview"};
  passage.own_authorization = false;
  return passage;
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
  const auto head = upstream_head(request, under_path("/x/%2e%2e/y?a=1&token=theirs"));
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
  EXPECT_NE(upstream_head(request, under_path("", 1))->find("Transfer-Encoding: chunked\r\n"),
            std::string::npos);
  request.content_length = 5;
  const auto head = upstream_head(request, under_path("", 1));
  EXPECT_TRUE(head->starts_with("POST / HTTP/1.1\r\n"));
  EXPECT_NE(head->find("Content-Length: 5\r\n"), std::string::npos);
  EXPECT_EQ(head->find("Transfer-Encoding"), std::string::npos);
}

TEST(ProxyHead, RefusesASecondRequestInTheAddress) {
  const http::Request request = request_with({});
  EXPECT_FALSE(upstream_head(request, under_path("/ HTTP/1.1\r\nX: y", 1)));
  EXPECT_FALSE(upstream_head(request, under_path("/a b", 1)));
}

TEST(ProxyHead, AWebSocketKeepsItsHandshakeButNotTheToken) {
  http::Request request =
      request_with({{"Sec-WebSocket-Key", "k"},
                    {"Sec-WebSocket-Version", "13"},
                    {"Upgrade", "websocket"},
                    {"Connection", "Upgrade"},
                    {"Sec-WebSocket-Protocol", "caisson, caisson.token.cais_secret, chat"}});
  request.wants_websocket = true;
  const auto head = upstream_head(request, under_path("/ws", 1));
  ASSERT_TRUE(head);
  EXPECT_EQ(head->find("cais_secret"), std::string::npos);
  EXPECT_NE(head->find("Sec-WebSocket-Protocol: chat\r\n"), std::string::npos);
  EXPECT_NE(head->find("Sec-WebSocket-Key: k\r\n"), std::string::npos);
  EXPECT_NE(head->find("Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), std::string::npos);

  const auto ours =
      switch_fields({{"Sec-WebSocket-Accept", "a"}, {"Set-Cookie", "x"}}, request, under_path("/"));
  ASSERT_EQ(ours.size(), 4U);
  EXPECT_EQ(ours[3].value, "caisson");
  const auto theirs = switch_fields({{"Sec-WebSocket-Protocol", "chat"}}, request, under_path("/"));
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
                                    under_path("/"));
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
                                    under_path("/"));
  ASSERT_EQ(fields.size(), 2U);
  EXPECT_EQ(fields[0].name, "X-Own");
  EXPECT_EQ(fields[1].name, "Content-Security-Policy");
}

TEST(ProxyHead, RewritesOnlyItsOwnLocations) {
  const auto location = [](std::string from) {
    return answer_fields({{"Location", std::move(from)}}, under_path("/"))[0].value;
  };
  EXPECT_EQ(location("http://localhost:8000/a"), "/p/a");
  EXPECT_EQ(location("http://127.0.0.1:8000"), "/p");
  EXPECT_EQ(location("http://localhost:80001/a"), "http://localhost:80001/a");
  EXPECT_EQ(location("//evil.example/"), "//evil.example/");
  EXPECT_EQ(location("https://example.com/"), "https://example.com/");
}

TEST(ProxyHead, OnAHostOfItsOwnAProgramSeesTheClientsRequest) {
  http::Request request = request_with({{"Host", "a.vhost.example"},
                                        {"User-Agent", "browser"},
                                        {"Cookie", "mine=1; __Host-caisson-preview=secret"},
                                        {"Authorization", "Basic dTpw"},
                                        {"X-API-Key", "theirs"},
                                        {"Origin", "https://a.vhost.example"},
                                        {"Referer", "https://a.vhost.example/x"},
                                        {"Sec-Fetch-Mode", "cors"},
                                        {"X-Forwarded-For", "6.6.6.6"},
                                        {"X-Forwarded-Host", "evil.example"},
                                        {"X-Forwarded-Port", "1"},
                                        {"X-Forwarded-Proto", "http"},
                                        {"X-Real-IP", "6.6.6.6"},
                                        {"Forwarded", "for=6.6.6.6"}});
  request.peer.address = "192.0.2.7";
  const auto head = upstream_head(request, own_host("/x?a=%20b"));
  ASSERT_TRUE(head);
  EXPECT_EQ(*head,
            "GET /x?a=%20b HTTP/1.1\r\n"
            "Host: a.vhost.example\r\n"
            "User-Agent: browser\r\n"
            "Cookie: mine=1\r\n"
            "Authorization: Basic dTpw\r\n"
            "X-API-Key: theirs\r\n"
            "Origin: https://a.vhost.example\r\n"
            "Referer: https://a.vhost.example/x\r\n"
            "Sec-Fetch-Mode: cors\r\n"
            "X-Forwarded-For: 192.0.2.7\r\n"
            "X-Forwarded-Host: a.vhost.example\r\n"
            "X-Forwarded-Proto: https\r\n"
            "Connection: close\r\n\r\n");
}

TEST(ProxyHead, OurCredentialsDoNotPassOnItsOwnHostEither) {
  http::Request request = request_with({{"Authorization", "Bearer cais_secret"},
                                        {"X-API-Key", "cais_secret"},
                                        {"Cookie", "caisson-preview=cais_secret"}});
  Passage passage = own_host("/");
  passage.own_authorization = true;
  EXPECT_EQ(upstream_head(request, passage)->find("cais_secret"), std::string::npos);
  EXPECT_EQ(upstream_head(request, passage)->find("Cookie"), std::string::npos);
}

// Only the proxy in front of us may say who its peer was, and only in the words of an address.
TEST(ProxyHead, APeerOfThisMachineIsBelieved) {
  const auto forwarded = [](std::string from, std::string scheme, bool local) {
    http::Request request = request_with(
        {{"X-Forwarded-For", std::move(from)}, {"X-Forwarded-Proto", std::move(scheme)}});
    request.peer = {local ? "unix" : "192.0.2.7", 0, local};
    const std::string head = *upstream_head(request, own_host("/"));
    const auto from_at = head.find("X-Forwarded-For: ");
    return head.substr(from_at, head.find("Connection") - from_at);
  };
  const std::string host = "X-Forwarded-Host: a.vhost.example\r\n";
  EXPECT_EQ(
      forwarded("198.51.100.1, 2001:db8::1", "http", true),
      "X-Forwarded-For: 198.51.100.1, 2001:db8::1\r\n" + host + "X-Forwarded-Proto: http\r\n");
  EXPECT_EQ(forwarded("198.51.100.1", "http", false),
            "X-Forwarded-For: 192.0.2.7\r\n" + host + "X-Forwarded-Proto: https\r\n");
  for (const std::string& bad : {std::string("evil; x"), std::string("for=1"), std::string(),
                                 std::string(kForwardedBytesMax + 1, '1')}) {
    EXPECT_EQ(forwarded(bad, "gopher", true),
              "X-Forwarded-For: 127.0.0.1\r\n" + host + "X-Forwarded-Proto: https\r\n")
        << bad;
  }
}

TEST(ProxyHead, AProgramsCookiesAreForItsHostAlone) {
  const auto fields = answer_fields({{"Set-Cookie", "a=1; Domain=vhost.example; Path=/"},
                                     {"Set-Cookie", "b=2"},
                                     {"Set-Cookie", "caisson-preview=evil"},
                                     {"Set-Cookie", "__Host-caisson-preview=evil; Secure; Path=/"},
                                     {"Content-Security-Policy", "default-src 'self'"},
                                     {"Access-Control-Allow-Origin", "*"},
                                     {"Service-Worker-Allowed", "/"},
                                     {"WWW-Authenticate", "Basic"},
                                     {"Clear-Site-Data", "\"cookies\""},
                                     {"Strict-Transport-Security", "max-age=1"},
                                     {"Alt-Svc", "h2=\"evil.example:443\""},
                                     {"Date", "never"},
                                     {"Server", "theirs"},
                                     {"X-Accel-Redirect", "/internal"},
                                     {"Connection", "X-Drop"},
                                     {"X-Drop", "1"}},
                                    own_host("/"));
  ASSERT_EQ(fields.size(), 6U);
  EXPECT_EQ(fields[0].value, "a=1; Path=/");
  EXPECT_EQ(fields[1].value, "b=2");
  EXPECT_EQ(fields[2].value, "default-src 'self'");
  EXPECT_EQ(fields[3].name, "Access-Control-Allow-Origin");
  EXPECT_EQ(fields[4].name, "Service-Worker-Allowed");
  EXPECT_EQ(fields[5].name, "WWW-Authenticate");
}

TEST(ProxyHead, OnItsOwnHostLocationsBecomeRelative) {
  const auto location = [](std::string from) {
    return answer_fields({{"Location", std::move(from)}}, own_host("/"))[0].value;
  };
  EXPECT_EQ(location("http://localhost:8000/a"), "/a");
  EXPECT_EQ(location("http://127.0.0.1:8000"), "/");
  EXPECT_EQ(location("http://127.0.0.1:8000?x=1"), "/?x=1");
  EXPECT_EQ(location("http://[::1]:8000/a"), "/a");
  EXPECT_EQ(location("http://a.vhost.example/b"), "/b");
  EXPECT_EQ(location("https://a.vhost.example/b"), "https://a.vhost.example/b");
  EXPECT_EQ(location("http://a.vhost.example.evil/b"), "http://a.vhost.example.evil/b");
  EXPECT_EQ(location("http://localhost:8000//evil.example"), "http://localhost:8000//evil.example");
  EXPECT_EQ(location("/login"), "/login");
  EXPECT_EQ(location("next"), "next");
}

TEST(ProxyHead, OnItsOwnHostEveryProtocolIsTheProgramsButOneThatCarriesAToken) {
  http::Request request =
      request_with({{"Sec-WebSocket-Protocol", "caisson, caisson.token.cais_secret, chat"}});
  request.wants_websocket = true;
  const auto head = upstream_head(request, own_host("/ws"));
  EXPECT_NE(head->find("Sec-WebSocket-Protocol: caisson, chat\r\n"), std::string::npos);
  EXPECT_EQ(head->find("cais_secret"), std::string::npos);
  EXPECT_EQ(switch_fields({{"Sec-WebSocket-Accept", "a"}}, request, own_host("/ws")).size(), 3U);
}

}  // namespace
}  // namespace caisson::proxy
