// TLS that is looked into: what must not pass first, then what is put in and taken out.
#include "egress/gate/intercept.h"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include "egress/credentials/authority.h"
#include "egress/gate/certificate_test.h"
#include "egress/gate/inside_test.h"

namespace caisson::egress::test {

namespace {

constexpr std::string_view kCanary = "canary-7f3a9b-value";

// A host behind TLS, with one function for all of its connections: what was asked, what is said.
Host::Serve tls_answers(const Certificate& certificate,
                        std::function<std::string(const std::string&)> answer) {
  return [&certificate, answer = std::move(answer)](RawClient& client) {
    const std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context(
        ::SSL_CTX_new(::TLS_server_method()), &::SSL_CTX_free);
    ::SSL_CTX_use_certificate(context.get(), certificate.cert.get());
    ::SSL_CTX_use_PrivateKey(context.get(), certificate.key.get());
    const std::unique_ptr<SSL, decltype(&::SSL_free)> tls(::SSL_new(context.get()), &::SSL_free);
    ::SSL_set_fd(tls.get(), client.fd());
    if (::SSL_accept(tls.get()) != 1) return;
    std::string in;
    char bytes[16384];
    for (;;) {
      const int got = ::SSL_read(tls.get(), bytes, sizeof bytes);
      if (got <= 0) return;
      in.append(bytes, static_cast<std::size_t>(got));
      const std::size_t end = in.find("\r\n\r\n");
      if (end == std::string::npos) continue;
      std::size_t body = 0;
      if (const std::size_t at = in.find("Content-Length: "); at < end)
        body = std::stoul(in.substr(at + 16));
      if (in.size() < end + 4 + body) continue;
      const std::string out = answer(in);
      in.clear();
      ::SSL_write(tls.get(), out.data(), static_cast<int>(out.size()));
    }
  };
}

std::string echo(const std::string& request) {
  return fmt::format("HTTP/1.1 200 OK\r\nX-Echo: {}\r\nContent-Length: {}\r\n\r\n{}",
                     request.find(kCanary) != std::string::npos ? kCanary : "no", request.size(),
                     request);
}

// A guest that trusts the authority, behind CONNECT.
class Guest {
 public:
  Guest(const std::string& pem, const std::string& host, std::uint16_t port)
      : client_(kProxyPort),
        context_(::SSL_CTX_new(::TLS_client_method()), &::SSL_CTX_free),
        tls_(nullptr, &::SSL_free) {
    BIO* memory = ::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
    X509* trusted = ::PEM_read_bio_X509(memory, nullptr, nullptr, nullptr);
    ::BIO_free(memory);
    if (trusted != nullptr)
      ::X509_STORE_add_cert(::SSL_CTX_get_cert_store(context_.get()), trusted);
    ::X509_free(trusted);
    ::SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    tls_.reset(::SSL_new(context_.get()));
    client_.send(connect_line(fmt::format("{}:{}", host, port)));
    if (!client_.until("\r\n\r\n").starts_with("HTTP/1.1 200")) return;
    ::SSL_set1_host(tls_.get(), host.c_str());
    SSL_set_tlsext_host_name(tls_.get(), host.c_str());
    ::SSL_set_fd(tls_.get(), client_.fd());
    connected_ = ::SSL_connect(tls_.get()) == 1;
  }
  [[nodiscard]] bool connected() const { return connected_; }

  bool send(std::string_view bytes) {
    return ::SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
  }
  // One answer: its head and, by its framing, its body.
  std::string ask(std::string_view bytes) {
    if (!send(bytes)) return {};
    std::string in;
    while (in.find("\r\n\r\n") == std::string::npos && more(in)) {
    }
    const std::size_t end = in.find("\r\n\r\n");
    if (end == std::string::npos) return in;
    if (const std::size_t at = in.find("Content-Length: "); at < end) {
      const std::size_t size = end + 4 + std::stoul(in.substr(at + 16));
      while (in.size() < size && more(in)) {
      }
    } else if (in.find("Transfer-Encoding: chunked") < end) {
      while (!in.ends_with("0\r\n\r\n") && more(in)) {
      }
    }
    return in;
  }

 private:
  bool more(std::string& in) {
    char bytes[16384];
    const int got = ::SSL_read(tls_.get(), bytes, sizeof bytes);
    if (got > 0) in.append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  }

  RawClient client_;
  std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&::SSL_free)> tls_;
  bool connected_ = false;
};

policy::NetworkEgressRule injecting(const std::string& domain, std::uint16_t port = 0) {
  auto out = rule(domain, port);
  out.inject = {{"Authorization", "key", "Bearer "}};
  return out;
}

std::shared_ptr<Authority> authority_for(const std::string& domain) {
  auto made = Authority::make("test", {domain}, std::chrono::system_clock::now());
  EXPECT_TRUE(made) << made.error().message;
  return std::make_shared<Authority>(std::move(*made));
}

struct Canary {
  Secret value = *Secret::copy_of(kCanary);
  [[nodiscard]] FindSecret find() const {
    return [this](std::string_view name) { return name == "key" ? &value : nullptr; };
  }
};

Inside::Options options_for(const Certificate& certificate, const Canary& canary) {
  Inside::Options options;
  options.trust_store = certificate.file();
  options.authority = authority_for("api.example");
  options.secrets = canary.find();
  return options;
}

std::string get_line(const std::string& path, std::uint16_t port, const std::string& more = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: api.example:{}\r\n{}\r\n", path, port, more);
}

}  // namespace

TEST(Intercept, ASecretNeverGoesInClearText) {
  NEEDS_INSIDE();
  const Certificate certificate("api.example");
  const Canary canary;
  Host host(echo_heads());
  // A second rule would let it go without the secret: that must not happen either.
  Inside inside({injecting("api.example", host.port()), rule("api.example", host.port())},
                options_for(certificate, canary));
  inside.names.set("api.example", {"127.0.0.1"});
  const auto reply = inside.ask(get("api.example", host.port()));
  EXPECT_EQ(reply.status, 403U);
  EXPECT_NE(reply.body.find("https only"), std::string::npos) << reply.body;
  RawClient tunnel = inside.proxy();
  tunnel.send(connect_line(fmt::format("api.example:{}", host.port())));
  (void)tunnel.until("\r\n\r\n");
  EXPECT_EQ(tunnel.ask(get_line("/", host.port())).status, 403U);
  ASSERT_TRUE(inside.wait_passages(2));
  EXPECT_EQ(inside.passages()[0].verdict.reason, Reason::NeedsTls);
}

TEST(Intercept, WhatItDoesNotKnowIsRefused) {
  NEEDS_INSIDE();
  const Certificate certificate("api.example");
  const Canary canary;
  std::atomic<int> asked = 0;
  Host host(tls_answers(certificate, [&](const std::string& request) {
    ++asked;
    return echo(request);
  }));
  auto options = options_for(certificate, canary);
  const std::string pem = options.authority->certificate_pem();
  auto lacking = injecting("api.example", host.port());
  lacking.inject[0].secret = "not-there";
  Inside inside({lacking}, options);
  inside.names.set("api.example", {"127.0.0.1"});
  Guest guest(pem, "api.example", host.port());
  ASSERT_TRUE(guest.connected());
  const std::string answer = guest.ask(get_line("/", host.port()));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 502")) << answer;
  EXPECT_NE(answer.find("'not-there' is not set"), std::string::npos) << answer;
  EXPECT_EQ(asked, 0);
}

TEST(Intercept, MethodsPathsAndHostAreJudgedInside) {
  NEEDS_INSIDE();
  const Certificate certificate("api.example");
  const Canary canary;
  std::atomic<int> asked = 0;
  Host host(tls_answers(certificate, [&](const std::string& request) {
    ++asked;
    return echo(request);
  }));
  auto options = options_for(certificate, canary);
  const std::string pem = options.authority->certificate_pem();
  auto limited = rule("api.example", host.port());
  limited.inspect = true;
  limited.methods = {"GET"};
  limited.path_prefixes = {"/v1"};
  Inside inside({limited}, options);
  inside.names.set("api.example", {"127.0.0.1"});
  Guest guest(pem, "api.example", host.port());
  ASSERT_TRUE(guest.connected());
  EXPECT_TRUE(guest.ask(get_line("/v2", host.port())).starts_with("HTTP/1.1 403"));
  const std::string wrong = "DELETE /v1 HTTP/1.1\r\nHost: api.example\r\n\r\n";
  EXPECT_TRUE(guest.ask(wrong).starts_with("HTTP/1.1 403"));
  EXPECT_EQ(asked, 0);
  const std::string other = "GET /v1 HTTP/1.1\r\nHost: evil.example\r\n\r\n";
  EXPECT_TRUE(guest.ask(other).starts_with("HTTP/1.1 403"));
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(guest.ask(get_line("/v1/x", host.port())).starts_with("HTTP/1.1 200"));
  EXPECT_EQ(asked, 1);
}

TEST(Intercept, AHostThatIsNotVerifiedGetsNothing) {
  NEEDS_INSIDE();
  const Certificate trusted("api.example");
  const Certificate stranger("api.example");
  const Canary canary;
  std::atomic<int> asked = 0;
  Host host(tls_answers(stranger, [&](const std::string& request) {
    ++asked;
    return echo(request);
  }));
  auto options = options_for(trusted, canary);
  const std::string pem = options.authority->certificate_pem();
  Inside inside({injecting("api.example", host.port())}, options);
  inside.names.set("api.example", {"127.0.0.1"});
  Guest guest(pem, "api.example", host.port());
  ASSERT_TRUE(guest.connected());
  const std::string answer = guest.ask(get_line("/", host.port()));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 502")) << answer;
  EXPECT_NE(answer.find("certificate"), std::string::npos) << answer;
  EXPECT_EQ(asked, 0);
}

TEST(Intercept, WithoutAnAuthorityNothingPasses) {
  NEEDS_INSIDE();
  const Certificate certificate("api.example");
  const Canary canary;
  Host host(tls_answers(certificate, echo));
  auto options = options_for(certificate, canary);
  options.authority.reset();
  Inside inside({injecting("api.example", host.port())}, options);
  inside.names.set("api.example", {"127.0.0.1"});
  Guest guest("", "api.example", host.port());
  EXPECT_FALSE(guest.connected());
  ASSERT_TRUE(inside.wait_passages(2));
  EXPECT_EQ(inside.passages()[1].verdict.reason, Reason::NotIntercepted);
}

TEST(Intercept, PutsTheSecretInAndTakesItOut) {
  NEEDS_INSIDE();
  const Certificate certificate("api.example");
  const Canary canary;
  std::mutex mutex;
  std::vector<std::string> seen;
  Host host(tls_answers(certificate, [&](const std::string& request) {
    const std::scoped_lock lock(mutex);
    seen.push_back(request);
    return echo(request);
  }));
  auto options = options_for(certificate, canary);
  const std::string pem = options.authority->certificate_pem();
  Inside inside({injecting("api.example", host.port())}, options);
  inside.names.set("api.example", {"127.0.0.1"});
  Guest guest(pem, "api.example", host.port());
  ASSERT_TRUE(guest.connected());
  for (int i = 0; i < 3; ++i) {
    const std::string answer =
        guest.ask(get_line("/x", host.port(), "authorization: Bearer mine\r\nX-Kept: 1\r\n"));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
    EXPECT_EQ(answer.find(kCanary), std::string::npos) << answer;
    EXPECT_NE(answer.find("[secret key]"), std::string::npos) << answer;
    EXPECT_NE(answer.find("X-Kept: 1"), std::string::npos);
  }
  const std::scoped_lock lock(mutex);
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(host.connections(), 1);
  for (const std::string& request : seen) {
    EXPECT_NE(request.find(fmt::format("Authorization: Bearer {}\r\n", kCanary)), std::string::npos)
        << request;
    EXPECT_EQ(request.find("mine"), std::string::npos);
  }
  for (const Passage& passage : inside.passages()) {
    EXPECT_EQ(passage.verdict.text.find(kCanary), std::string::npos);
  }
}

TEST(Intercept, LargeBodiesPassBothWays) {
  NEEDS_INSIDE();
  const Certificate certificate("api.example");
  const Canary canary;
  Host host(tls_answers(certificate, [](const std::string& request) {
    const std::string body = request.substr(request.find("\r\n\r\n") + 4);
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
  }));
  auto options = options_for(certificate, canary);
  const std::string pem = options.authority->certificate_pem();
  auto inspected = rule("api.example", host.port());
  inspected.inspect = true;
  Inside inside({inspected}, options);
  inside.names.set("api.example", {"127.0.0.1"});
  Guest guest(pem, "api.example", host.port());
  ASSERT_TRUE(guest.connected());
  std::string body(300'000, 'a');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i % 23);
  const std::string answer =
      guest.ask(fmt::format("POST /b HTTP/1.1\r\nHost: api.example:{}\r\nContent-Length: "
                            "{}\r\n\r\n{}",
                            host.port(), body.size(), body));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(answer.ends_with(body));
}

TEST(Intercept, OtherRulesAreCutWhenTheyChange) {
  NEEDS_INSIDE();
  const Certificate certificate("api.example");
  const Canary canary;
  Host host(tls_answers(certificate, echo));
  auto options = options_for(certificate, canary);
  const std::string pem = options.authority->certificate_pem();
  Inside inside({injecting("api.example", host.port())}, options);
  inside.names.set("api.example", {"127.0.0.1"});
  Guest guest(pem, "api.example", host.port());
  ASSERT_TRUE(guest.connected());
  EXPECT_TRUE(guest.ask(get_line("/", host.port())).starts_with("HTTP/1.1 200"));
  inside.replace({rule("other.example")});
  EXPECT_EQ(guest.ask(get_line("/", host.port())), "");
  EXPECT_TRUE(inside.loop.wait_until([&] { return inside.gate->counts().open == 0; }));
}

}  // namespace caisson::egress::test
