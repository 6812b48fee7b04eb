// A tool's own request: the same wall, and TLS that is verified.
#include <fmt/format.h>
#include <openssl/ssl.h>

#include "egress/gate/certificate_test.h"
#include "egress/gate/inside_test.h"

namespace caisson::egress::test {

namespace {

// Answers one request over TLS.
Host::Serve tls_host(const Certificate& certificate, std::string answer) {
  return [&certificate, answer](RawClient& client) {
    const std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context(
        ::SSL_CTX_new(::TLS_server_method()), &::SSL_CTX_free);
    ::SSL_CTX_use_certificate(context.get(), certificate.cert.get());
    ::SSL_CTX_use_PrivateKey(context.get(), certificate.key.get());
    const std::unique_ptr<SSL, decltype(&::SSL_free)> tls(::SSL_new(context.get()), &::SSL_free);
    ::SSL_set_fd(tls.get(), client.fd());
    if (::SSL_accept(tls.get()) != 1) return;
    char bytes[4096];
    const int got = ::SSL_read(tls.get(), bytes, sizeof bytes);
    if (got <= 0) return;
    std::string out = answer;
    if (out.empty()) {
      out = fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", got,
                        std::string_view(bytes, static_cast<std::size_t>(got)));
    }
    ::SSL_write(tls.get(), out.data(), static_cast<int>(out.size()));
    ::SSL_shutdown(tls.get());
  };
}

Result<ToolAnswer> fetch(Inside& inside, ToolRequest request) {
  return inside.loop.run<Result<ToolAnswer>>([&] { return inside.gate->fetch(request); });
}

Result<ToolAnswer> fetch(Inside& inside, const std::string& url) {
  ToolRequest request;
  request.url = url;
  return fetch(inside, std::move(request));
}

}  // namespace

TEST(ToolFetch, WhatIsRefused) {
  NEEDS_INSIDE();
  Host host(echo_heads());
  auto limited = rule("good.example", host.port());
  limited.methods = {"GET"};
  Inside inside({limited, rule("inner.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  inside.names.set("inner.example", {"10.0.0.1"});
  const std::string port = std::to_string(host.port());
  const auto code = [&](const std::string& url) { return fetch(inside, url).error().code; };
  EXPECT_EQ(code("http://evil.example/"), Errc::Denied);
  EXPECT_EQ(code("http://inner.example:" + port + "/"), Errc::Denied);
  for (const char* url :
       {"http://127.0.0.1/", "http://[::1]/", "file:///etc/passwd", "good.example",
        "http://u:p@good.example/", "", "ftp://good.example/", "https://"}) {
    EXPECT_EQ(code(url), Errc::InvalidArgument) << url;
  }
  ToolRequest post;
  post.method = "POST";
  post.url = "http://good.example:" + port + "/";
  EXPECT_EQ(fetch(inside, post).error().code, Errc::Denied);
  post.method = "GE T";
  EXPECT_EQ(fetch(inside, post).error().field, "method");
  post.method = "GET";
  post.fields = {{"X", "a\r\nEvil: 1"}};
  EXPECT_EQ(fetch(inside, post).error().field, "headers");
  post.fields.assign(kToolFieldsMax + 1, {"X", "a"});
  EXPECT_EQ(fetch(inside, post).error().field, "headers");
  post.fields = {{"X", std::string(kToolFieldBytesMax, 'a')}};
  EXPECT_EQ(fetch(inside, post).error().field, "headers");
  post.fields.clear();
  post.body.assign(kToolBodyBytesMax + 1, 'x');
  EXPECT_EQ(fetch(inside, post).error().field, "body");
  EXPECT_EQ(host.connections(), 0);
}

TEST(ToolFetch, PlainAnswers) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) {
    const std::string head = client.until("\r\n\r\n");
    const auto is = [&](const char* path) { return head.find(path) != std::string::npos; };
    if (is("/chunks")) {
      client.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    } else if (is("/end")) {
      client.send("HTTP/1.1 200 OK\r\n\r\nto the end");
    } else if (is("/moved")) {
      client.send(
          "HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n");
    } else if (is("/large")) {
      client.send("HTTP/1.1 200 OK\r\n\r\n" + std::string(kToolBodyBytesMax + 100'000, 'x'));
    } else if (is("/short")) {
      client.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    } else {
      client.send(
          fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", head.size(), head));
    }
    client.finish();
    (void)client.rest();
  });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  const std::string base = fmt::format("http://good.example:{}", host.port());
  ToolRequest request;
  request.url = base + "/x?y=z";
  request.fields = {{"X-Kept", "1"}, {"Host", "evil.example"}, {"Transfer-Encoding", "chunked"}};
  const auto plain = fetch(inside, request);
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->body, fmt::format("GET /x?y=z HTTP/1.1\r\nHost: good.example:{}\r\nX-Kept: "
                                     "1\r\nConnection: close\r\n\r\n",
                                     host.port()));
  EXPECT_EQ(fetch(inside, base + "/chunks")->body, "abc");
  EXPECT_EQ(fetch(inside, base + "/end")->body, "to the end");
  EXPECT_EQ(fetch(inside, base + "/moved")->status, 302U);
  const auto large = fetch(inside, base + "/large");
  EXPECT_TRUE(large->truncated);
  EXPECT_EQ(large->body.size(), kToolBodyBytesMax);
  EXPECT_EQ(fetch(inside, base + "/short").error().code, Errc::Gone);
  EXPECT_EQ(inside.passages()[0].way, Way::Tool);
  EXPECT_EQ(inside.passages()[0].path, "/x");
}

TEST(ToolFetch, TlsIsVerified) {
  NEEDS_INSIDE();
  const Certificate good("good.example");
  const Certificate other("other.example");
  Host right(tls_host(good, ""));
  Host wrong_name(tls_host(other, ""));
  Inside::Options options;
  options.trust_store = good.file();
  Inside inside({rule("good.example")}, options);
  inside.names.set("good.example", {"127.0.0.1"});
  const auto answer = fetch(inside, fmt::format("https://good.example:{}/x", right.port()));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(answer->body.starts_with("GET /x HTTP/1.1\r\nHost: good.example:"));
  const auto untrusted = fetch(inside, fmt::format("https://good.example:{}/", wrong_name.port()));
  ASSERT_FALSE(untrusted);
  EXPECT_NE(untrusted.error().message.find("certificate"), std::string::npos);
}

TEST(ToolFetch, CertificateOfAnotherName) {
  NEEDS_INSIDE();
  const Certificate other("other.example");
  Host host(tls_host(other, ""));
  Inside::Options options;
  options.trust_store = other.file();
  Inside inside({rule("good.example"), rule("other.example")}, options);
  inside.names.set("good.example", {"127.0.0.1"});
  inside.names.set("other.example", {"127.0.0.1"});
  EXPECT_TRUE(fetch(inside, fmt::format("https://other.example:{}/", host.port())));
  const auto refused = fetch(inside, fmt::format("https://good.example:{}/", host.port()));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("mismatch"), std::string::npos) << refused.error().message;
}

TEST(ToolFetch, TimeLimit) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) { (void)client.rest(); });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  ToolRequest request;
  request.url = fmt::format("http://good.example:{}/", host.port());
  request.limit = milliseconds(100);
  EXPECT_EQ(fetch(inside, request).error().code, Errc::TimedOut);
}

}  // namespace caisson::egress::test
