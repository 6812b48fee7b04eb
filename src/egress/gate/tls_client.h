// egress/gate/tls_client.h — our own end of TLS to a host: its certificate is verified for the name
// that was judged, against a store of authorities that is loaded once.
#pragma once

#include <openssl/ssl.h>

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "egress/gate/connection.h"
#include "egress/wire/host_name.h"

namespace caisson::egress {

class TlsTrust {
 public:
  // A file of certificates in PEM; empty: where OpenSSL finds the system's.
  [[nodiscard]] static Result<std::shared_ptr<TlsTrust>> load(const std::string& file);
  [[nodiscard]] SSL_CTX* get() const noexcept { return context_.get(); }

 private:
  using Context = std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)>;
  explicit TlsTrust(Context context) : context_(std::move(context)) {}
  Context context_;
};

// Over the upstream half of a connection, whose bytes it counts.
class TlsClient {
 public:
  [[nodiscard]] static Result<std::unique_ptr<TlsClient>> make(std::shared_ptr<TlsTrust> trust,
                                                               const HostName& host,
                                                               Connection& connection);

  [[nodiscard]] boost::asio::awaitable<Result<void>> handshake();
  [[nodiscard]] boost::asio::awaitable<Result<void>> write(std::string_view bytes);
  // More into `into`; nothing more at the end that the host announced.
  [[nodiscard]] boost::asio::awaitable<Result<bool>> read(std::string& into);

 private:
  using Session = std::unique_ptr<SSL, decltype(&::SSL_free)>;
  TlsClient(std::shared_ptr<TlsTrust> trust, Session session, Connection& connection)
      : trust_(std::move(trust)), session_(std::move(session)), c_(connection) {}
  // What OpenSSL has written goes out, and where it wants bytes, more come in.
  [[nodiscard]] boost::asio::awaitable<Result<void>> move(int outcome);

  std::shared_ptr<TlsTrust> trust_;
  Session session_;
  Connection& c_;
};

}  // namespace caisson::egress
