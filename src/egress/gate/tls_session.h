// egress/gate/tls_session.h — one end of TLS without a socket: bytes go in and out by memory, and
// whoever owns the connection moves them.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "egress/gate/tls_client.h"
#include "egress/wire/host_name.h"

namespace caisson::egress {

using TlsSession = std::unique_ptr<SSL, decltype(&::SSL_free)>;

// Ours towards a host: its certificate is verified for this name.
[[nodiscard]] Result<TlsSession> client_session(const TlsTrust& trust, const HostName& host);
// Ours towards a guest, with the certificate of `context`.
[[nodiscard]] Result<TlsSession> server_session(SSL_CTX* context);

// Why the last call failed, without anything that was said on the connection.
[[nodiscard]] std::string tls_fault(const SSL* session);

}  // namespace caisson::egress
