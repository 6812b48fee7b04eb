// TLS in front of both protocols, with a client of OpenSSL's own.
#include "http/tls_front.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <atomic>
#include <cstdio>
#include <memory>

#include "http/http2_client_test.h"
#include "sys/temp_dir_test.h"

namespace caisson::http::test {
namespace {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* one) const {
    Free(one);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Freed<SSL_free>>;

// A self-signed certificate for one test, as files.
class Identity {
 public:
  Identity() {
    const Key key(EVP_EC_gen("P-256"));
    const Certificate certificate(X509_new());
    X509* x = certificate.get();
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), 0);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, key.get());
    X509_sign(x, key.get(), EVP_sha256());
    write(certificate_file(), [x](std::FILE* file) { return PEM_write_X509(file, x); });
    write(key_file(), [&key](std::FILE* file) {
      return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
  }
  [[nodiscard]] std::string certificate_file() const { return folder_.path() + "/certificate.pem"; }
  [[nodiscard]] std::string key_file() const { return folder_.path() + "/key.pem"; }

 private:
  static void write(const std::string& path, const std::function<int(std::FILE*)>& work) {
    std::FILE* file = std::fopen(path.c_str(), "we");
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(work(file), 1);
    (void)std::fclose(file);
  }
  sys::TempDir folder_;
};

class TlsClient {
 public:
  // `protocols` in ALPN's form.
  TlsClient(std::uint16_t port, std::string_view protocols, int version_max = TLS1_3_VERSION)
      : wire_(port), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_max_proto_version(context_.get(), version_max);
    session_.reset(SSL_new(context_.get()));
    if (!protocols.empty()) {
      SSL_set_alpn_protos(session_.get(), reinterpret_cast<const unsigned char*>(protocols.data()),
                          static_cast<unsigned>(protocols.size()));
    }
    SSL_set_fd(session_.get(), wire_.fd());
    connected_ = SSL_connect(session_.get()) == 1;
  }
  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(session_.get(), &name, &size);
    return {reinterpret_cast<const char*>(name), size};
  }
  bool send(std::string_view bytes) {
    return SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
  }
  // Empty at the end; `clean` says whether the peer announced it.
  std::string any() {
    char bytes[16384];
    const int got = SSL_read(session_.get(), bytes, sizeof bytes);
    clean_ = got <= 0 && SSL_get_error(session_.get(), got) == SSL_ERROR_ZERO_RETURN;
    return got > 0 ? std::string(bytes, static_cast<std::size_t>(got)) : std::string();
  }
  bool until(std::string_view mark) {
    while (in_.find(mark) == std::string::npos) {
      const std::string more = any();
      if (more.empty()) return false;
      in_ += more;
    }
    return true;
  }
  void say_goodbye() { SSL_shutdown(session_.get()); }
  [[nodiscard]] bool clean() const { return clean_; }
  [[nodiscard]] const std::string& seen() const { return in_; }
  RawClient& wire() { return wire_; }

 private:
  RawClient wire_;
  Context context_;
  Session session_;
  std::string in_;
  bool connected_ = false;
  bool clean_ = false;
};

Limits both(std::uint32_t header_seconds = 15) {
  Limits limits;
  limits.http2 = true;
  limits.header_seconds = header_seconds;
  return limits;
}

class Tls : public ::testing::Test {
 protected:
  explicit Tls(const Limits& limits = both())
      : server_([this](Exchange& exchange) { return answer(exchange); }, limits) {
    auto front = TlsFront::make(identity_.certificate_file(), identity_.key_file());
    EXPECT_TRUE(front) << front.error().message;
    server_.on_thread(
        [&] { EXPECT_TRUE(server_.server().listen(listen_v4(port_), std::move(*front))); });
  }
  awaitable<void> answer(Exchange& exchange) {
    if (exchange.request().path == "/wait") {
      ++inside_;
      co_await exchange.wait_for_hangup();
      ++gone_;
      co_return;
    }
    if (exchange.request().path == "/big") {
      co_await exchange.respond(200, "text/plain", std::string(4UL << 20U, 'b') + "END");
      co_return;
    }
    auto body = co_await read_all(exchange, 10UL << 20U);
    if (!body) co_return;
    co_await exchange.respond(
        200, "text/plain",
        exchange.request().peer.address + " " + std::to_string(body->size()) + " bytes");
  }
  Identity identity_;
  std::atomic<int> inside_ = 0;
  std::atomic<int> gone_ = 0;
  LoopbackServer server_;
  std::uint16_t port_ = 0;
};

class HastyTls : public Tls {
 protected:
  HastyTls() : Tls(both(1)) {}
};

constexpr std::string_view kBothNames("\x08http/1.1\x02h2", 12);

TEST_F(Tls, BothProtocols) {
  TlsClient modern(port_, kBothNames);
  ASSERT_TRUE(modern.connected());
  EXPECT_EQ(modern.protocol(), "h2");
  modern.send(std::string(kHttp2Preface) + frame(NGHTTP2_SETTINGS, 0, 0, "") +
              frame(NGHTTP2_HEADERS, 5, 1, get_block()));
  EXPECT_TRUE(modern.until("127.0.0.1 0 bytes"));
  TlsClient older(port_, std::string_view("\x08http/1.1", 9), TLS1_2_VERSION);
  ASSERT_TRUE(older.connected());
  EXPECT_EQ(older.protocol(), "http/1.1");
  older.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(older.until("127.0.0.1 0 bytes"));
  TlsClient plain(port_, "");
  ASSERT_TRUE(plain.connected());
  plain.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(plain.until("127.0.0.1 0 bytes"));
  EXPECT_EQ(plain.any(), "");
  EXPECT_TRUE(plain.clean()) << "the end is announced";
}

TEST_F(Tls, LargeBodiesBothWays) {
  TlsClient client(port_, "");
  ASSERT_TRUE(client.connected());
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n");
  const std::string block(50000, 'x');
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(client.send(block));
  EXPECT_TRUE(client.until("5000000 bytes"));
  client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(client.until("END"));
  EXPECT_GT(client.seen().size(), 4UL << 20U);
}

TEST_F(Tls, AClientThatLeavesIsNoticed) {
  TlsClient gone(port_, "");
  TlsClient polite(port_, "");
  gone.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
  polite.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(server_.wait_until([&](const ServerCounters&) { return inside_ == 2; }));
  gone.wire().finish();
  polite.say_goodbye();
  ASSERT_TRUE(server_.wait_until([&](const ServerCounters&) { return gone_ == 2; }));
}

TEST_F(Tls, ConnectionsCountOnce) {
  TlsClient one(port_, "");
  one.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(one.until("bytes"));
  EXPECT_EQ(server_.counters().open, 1U);
  EXPECT_EQ(server_.counters().connections, 1U);
}

TEST_F(Tls, OldVersionsAndPlainTextAreRefused) {
  TlsClient old(port_, "", TLS1_1_VERSION);
  EXPECT_FALSE(old.connected());
  RawClient plain(port_);
  plain.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(plain.closed());
  EXPECT_TRUE(server_.wait_until([](const ServerCounters& now) { return now.requests == 0; }));
}

TEST_F(Tls, StopWithConnectionsOpen) {
  TlsClient idle(port_, "");
  idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(idle.until("bytes"));
  RawClient half(port_);
  ASSERT_TRUE(server_.wait_until([](const ServerCounters& now) { return now.open == 2; }));
  std::promise<void> stopped;
  server_.on_thread([&] { server_.server().stop([&] { stopped.set_value(); }); });
  EXPECT_EQ(idle.any(), "");
  EXPECT_TRUE(half.closed());
  idle.wire().close();
  stopped.get_future().wait();
}

TEST_F(HastyTls, AHandshakeThatStopsIsTimedOut) {
  RawClient silent(port_);
  RawClient half(port_);
  half.send(std::string_view("\x16\x03\x01", 3));
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(half.closed());
  EXPECT_TRUE(server_.wait_until([](const ServerCounters& now) { return now.open == 0; }));
}

TEST(TlsFiles, AreNamedWhenTheyAreWrong) {
  const Identity one;
  const Identity two;
  const auto missing = TlsFront::make("/nowhere/certificate.pem", one.key_file());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::InvalidArgument);
  EXPECT_NE(missing.error().message.find("/nowhere/certificate.pem"), std::string::npos);
  const auto swapped = TlsFront::make(one.certificate_file(), one.certificate_file());
  ASSERT_FALSE(swapped);
  EXPECT_NE(swapped.error().message.find("key"), std::string::npos);
  const auto other = TlsFront::make(one.certificate_file(), two.key_file());
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("key"), std::string::npos);
}

}  // namespace
}  // namespace caisson::http::test
