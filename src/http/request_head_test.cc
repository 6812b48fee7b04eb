// What must not be accepted, first; each line here is a request that two readers could split or
// route differently.
#include "http/request_head.h"

#include <gtest/gtest.h>

namespace caisson::http {
namespace {

struct Outcome {
  unsigned status = 0;  // 0: accepted
  std::string message;
  Request request;
  Framing framing;
};

Outcome parse(std::string_view bytes, const Limits& limits = {}) {
  Outcome outcome;
  HeadScanner scanner;
  auto scanned = scanner.scan(bytes, limits);
  if (!scanned) return {scanned.error().status, scanned.error().error.message, {}, {}};
  if (!scanned->has_value()) return {1, "more", {}, {}};
  const std::size_t start = scanner.skipped();
  auto read =
      read_head(bytes.substr(start, **scanned - start), limits, outcome.request, outcome.framing);
  if (!read) return {read.error().status, read.error().error.message, {}, {}};
  return outcome;
}

std::string get(std::string_view fields, std::string_view line = "GET / HTTP/1.1") {
  return std::string(line) + "\r\nHost: a\r\n" + std::string(fields) + "\r\n";
}

TEST(RequestHead, MalformedIsRefused) {
  using namespace std::string_literals;
  const struct {
    unsigned status;
    std::string bytes;
  } table[] = {
      // Lengths and encodings.
      {400, get("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n")},
      {400, get("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n")},
      {400, get("Content-Length: 1\r\nContent-Length: 1\r\n")},
      {400, get("Content-Length: 1\r\nContent-Length: 2\r\n")},
      {400, get("Content-Length: 1, 1\r\n")},
      {400, get("Content-Length: +1\r\n")},
      {400, get("Content-Length: -1\r\n")},
      {400, get("Content-Length: 0x1\r\n")},
      {400, get("Content-Length: 1 1\r\n")},
      {400, get("Content-Length:\r\n")},
      {400, get("Content-Length: 99999999999999999999\r\n")},
      {400, get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")},
      {400, get("Transfer-Encoding: identity\r\n")},
      {400, get("Transfer-Encoding: gzip, chunked\r\n")},
      {400, get("Transfer-Encoding: chunked, identity\r\n")},
      {400, get("Transfer-Encoding: xchunked\r\n")},
      {400, get("Transfer-Encoding: \"chunked\"\r\n")},
      {400, get("Transfer-Encoding: chunked\r\n", "POST / HTTP/1.0")},
      // Lines.
      {400, get("X: a\r\n b\r\n")},
      {400, get("X: a\r\n\tb\r\n")},
      {400, " GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, get("X : a\r\n")},
      {400, get("X\t: a\r\n")},
      {400, get(": a\r\n")},
      {400, get("X\r\n")},
      {400, get("X: a\rb\r\n")},
      {400, get("X: a\nContent-Length: 5\r\n")},
      {400, get("X: a\0b\r\n"s)},
      {400, get("X: a\x01\r\n")},
      {400, get("X\x80: a\r\n")},
      {400, "GET / HTTP/1.1\nHost: a\n\n"},
      {400, "GET / HTTP/1.1\r\nHost: a\n\r\n"},
      {400, "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"},
      // Host.
      {400, "GET / HTTP/1.1\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n"},
      {400, "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"},
      // Targets.
      {400, get("", "GET  / HTTP/1.1")},
      {400, get("", "GET a HTTP/1.1")},
      {400, get("", "GET * HTTP/1.1")},
      {400, get("", "GET /a b HTTP/1.1")},
      {400, get("", "GET /a\tb HTTP/1.1")},
      {400, get("", "GET /a\x01 HTTP/1.1")},
      {400, get("", "GET /\xc3\xa9 HTTP/1.1")},
      {400, get("", "GET /a#b HTTP/1.1")},
      {400, get("", "GET /a\\b HTTP/1.1")},
      {400, get("", "GET http://b/ HTTP/1.1")},
      {400, get("", "GET http:///x HTTP/1.1")},
      {400, get("", "GET ftp://a/ HTTP/1.1")},
      {400, get("", "GET http://a@a/ HTTP/1.1")},
      {400, get("", "GET HTTP/1.1")},
      {400, get("", "G@T / HTTP/1.1")},
      // Versions and methods.
      {505, get("", "GET / HTTP/2.0")},
      {505, get("", "GET / HTTP/1.2")},
      {505, get("", "GET / HTTP/0.9")},
      {405, get("", "TRACE / HTTP/1.1")},
      {501, get("", "CONNECT a:80 HTTP/1.1")},
      {501, get("", std::string(33, 'M') + " / HTTP/1.1")},
      {417, get("Content-Length: 1\r\nExpect: something\r\n")},
      {417, get("Content-Length: 1\r\nExpect: 100-continue\r\nExpect: 100-continue\r\n")},
  };
  for (const auto& row : table) EXPECT_EQ(parse(row.bytes).status, row.status) << row.bytes;
}

TEST(RequestHead, LimitsAreReached) {
  Limits limits;
  limits.headers_max = 3;
  limits.header_bytes_max = 300;
  limits.target_bytes_max = 100;
  EXPECT_EQ(parse(get("A: 1\r\nB: 2\r\n"), limits).status, 0U);
  EXPECT_EQ(parse(get("A: 1\r\nB: 2\r\nC: 3\r\n"), limits).status, 431U);
  EXPECT_EQ(parse(get("A: " + std::string(200, 'x') + "\r\n"), limits).status, 0U);
  EXPECT_EQ(parse(get("A: " + std::string(300, 'x') + "\r\n"), limits).status, 431U);
  EXPECT_EQ(parse("GET / HTTP/1.1\r\nA: " + std::string(300, 'x'), limits).status, 431U);
  EXPECT_EQ(parse(get("", "GET /" + std::string(99, 'x') + " HTTP/1.1"), limits).status, 0U);
  EXPECT_EQ(parse(get("", "GET /" + std::string(100, 'x') + " HTTP/1.1"), limits).status, 414U);
  EXPECT_EQ(parse("GET /" + std::string(200, 'x'), limits).status, 414U);
}

TEST(RequestHead, PartsAreRead) {
  const auto outcome =
      parse("\r\nPOST /a%20b?x=1&y HTTP/1.1\r\nhost: a:80\r\nContent-Length:  12 \r\n\r\nbody");
  ASSERT_EQ(outcome.status, 0U) << outcome.message;
  EXPECT_EQ(outcome.request.method, Method::Post);
  EXPECT_EQ(outcome.request.path, "/a%20b");
  EXPECT_EQ(outcome.request.query, "x=1&y");
  EXPECT_EQ(outcome.request.content_length, 12U);
  EXPECT_TRUE(outcome.request.has_body);
  EXPECT_EQ(outcome.request.field("HOST"), "a:80");
  EXPECT_TRUE(outcome.framing.keep_alive);
  EXPECT_FALSE(outcome.framing.chunked);
}

TEST(RequestHead, AbsoluteFormOfTheSameHost) {
  const auto outcome = parse("GET http://A:80/x?y HTTP/1.1\r\nHost: a:80\r\n\r\n");
  ASSERT_EQ(outcome.status, 0U) << outcome.message;
  EXPECT_EQ(outcome.request.path, "/x");
  EXPECT_EQ(outcome.request.query, "y");
  EXPECT_EQ(parse(get("", "GET http://a HTTP/1.1")).request.path, "/");
  EXPECT_EQ(parse(get("", "OPTIONS * HTTP/1.1")).request.path, "*");
}

TEST(RequestHead, ConnectionAndUpgrade) {
  EXPECT_FALSE(parse(get("Connection: close\r\n")).framing.keep_alive);
  EXPECT_FALSE(parse(get("Connection: x, Close\r\n")).framing.keep_alive);
  EXPECT_FALSE(parse(get("", "GET / HTTP/1.0")).framing.keep_alive);
  EXPECT_TRUE(parse(get("Connection: keep-alive\r\n", "GET / HTTP/1.0")).framing.keep_alive);
  EXPECT_TRUE(parse(get("Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"))
                  .request.wants_websocket);
  EXPECT_FALSE(parse(get("Upgrade: websocket\r\n")).request.wants_websocket);
  EXPECT_TRUE(parse(get("Content-Length: 1\r\nExpect: 100-Continue\r\n")).framing.expect_continue);
  EXPECT_FALSE(parse(get("Expect: 100-continue\r\n")).framing.expect_continue);
}

// Whatever the pieces, the scanner says the same.
// A proxy judges hosts itself; the framing is as strict as elsewhere.
TEST(RequestHead, AsAProxyReadsIt) {
  const auto status = [](std::string_view head) {
    Request request;
    Framing framing;
    const auto read = read_proxy_head(head, {}, request, framing);
    return read ? 0U : read.error().status;
  };
  EXPECT_EQ(status("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"), 0U);
  EXPECT_EQ(status("CONNECT a:443 HTTP/1.1\r\n\r\n"), 0U);
  EXPECT_EQ(status("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n"), 0U);
  EXPECT_EQ(status("GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400U);
  EXPECT_EQ(status("TRACE http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 405U);
  EXPECT_EQ(status("GET http://a/#b HTTP/1.1\r\nHost: a\r\n\r\n"), 400U);
  EXPECT_EQ(status("GET http://a/ HTTP/2.0\r\nHost: a\r\n\r\n"), 505U);
  EXPECT_EQ(status("POST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n"),
            400U);
}

TEST(RequestHead, ScannerByBytes) {
  const std::string bytes = get("A: 1\r\n") + "rest";
  HeadScanner scanner;
  for (std::size_t size = 1; size < bytes.size() - 4; ++size) {
    const auto scanned = scanner.scan(std::string_view(bytes).substr(0, size), Limits{});
    ASSERT_TRUE(scanned);
    EXPECT_FALSE(scanned->has_value());
  }
  const auto scanned = scanner.scan(bytes, Limits{});
  ASSERT_TRUE(scanned);
  EXPECT_EQ(*scanned, bytes.size() - 4);
}

TEST(Query, IsDecoded) {
  const auto pairs = parse_query("a=1&b=%2F+x&&c");
  ASSERT_TRUE(pairs);
  ASSERT_EQ(pairs->size(), 3U);
  EXPECT_EQ((*pairs)[1].second, "/ x");
  EXPECT_EQ((*pairs)[2].first, "c");
  EXPECT_FALSE(parse_query("a=%"));
  EXPECT_FALSE(parse_query("a=%4"));
  EXPECT_FALSE(parse_query("a=%zz"));
  EXPECT_FALSE(parse_query("a=%00"));
  EXPECT_TRUE(parse_query("a&b", 2));
  EXPECT_FALSE(parse_query("a&b&c", 2));
  EXPECT_EQ(percent_decode("a+b"), "a+b");
  EXPECT_EQ(percent_decode("%41%62"), "Ab");
}

TEST(Field, NamesTokensAndValues) {
  Request request;
  request.fields = {{"A", "1"}, {"a", "2"}, {"B", "3"}};
  EXPECT_EQ(request.field("b"), "3");
  EXPECT_EQ(request.field("a"), "") << "two values are none";
  EXPECT_EQ(request.count("a"), 2U);
  EXPECT_TRUE(has_token("a, B ,c", "b"));
  EXPECT_FALSE(has_token("ab", "b"));
  EXPECT_FALSE(is_field_value("a\r\nb"));
  EXPECT_FALSE(is_field_name("a b"));
}

}  // namespace
}  // namespace caisson::http
