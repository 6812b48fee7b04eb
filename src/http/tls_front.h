// http/tls_front.h — TLS in front of a listener. A relay takes TLS off a connection and passes the
// plain bytes through a pair of sockets, so that everything behind it is the same with and without.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "http/server_core.h"

namespace caisson::http {

// One connection under TLS.
class TlsRelay : public Served {
 public:
  using Served::Served;
  // The plain end, when the two agree within the time of a head.
  virtual awaitable<std::optional<Socket>> handshake() = 0;
  // Passes bytes and their ends on both ways; returns when it is over.
  virtual awaitable<void> run() = 0;
};

class TlsFront {
 public:
  // Both files in PEM: the certificate with its chain, and its key.
  [[nodiscard]] static Result<std::shared_ptr<TlsFront>> make(const std::string& certificate_file,
                                                              const std::string& key_file);
  TlsFront() = default;
  virtual ~TlsFront() = default;
  TlsFront(const TlsFront&) = delete;
  TlsFront& operator=(const TlsFront&) = delete;
  TlsFront(TlsFront&&) = delete;
  TlsFront& operator=(TlsFront&&) = delete;
  [[nodiscard]] virtual std::shared_ptr<TlsRelay> relay(std::shared_ptr<ServerCore> core,
                                                        std::shared_ptr<Seat> seat,
                                                        Socket socket) = 0;
};

}  // namespace caisson::http
