#include "egress/gate/tls_session.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <array>

namespace caisson::egress {

namespace {

// We pass on HTTP/1.1 only, and a host that would choose something else must know.
constexpr std::array<unsigned char, 9> kHttp1 = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

std::string last_error() {
  const unsigned long code = ::ERR_get_error();
  ::ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
  if (reason != nullptr) return reason;
  return code == 0 ? "unknown error" : fmt::format("error {:x}", code);
}

Result<TlsSession> new_session(SSL_CTX* context) {
  TlsSession session(::SSL_new(context), &::SSL_free);
  BIO* in = ::BIO_new(::BIO_s_mem());
  BIO* out = ::BIO_new(::BIO_s_mem());
  if (!session || in == nullptr || out == nullptr) {
    ::BIO_free(in);
    ::BIO_free(out);
    return failure(Errc::Internal, "TLS: " + last_error());
  }
  ::SSL_set_bio(session.get(), in, out);  // which owns them now
  // A second handshake would make writing wait for reading, and nobody needs one.
  ::SSL_set_options(session.get(), SSL_OP_NO_RENEGOTIATION);
  (void)SSL_set_mode(session.get(), SSL_MODE_RELEASE_BUFFERS);  // an idle connection holds little
  return session;
}

}  // namespace

Result<TlsSession> client_session(const TlsTrust& trust, const HostName& host) {
  TlsSession session = TRY(new_session(trust.get()));
  ::SSL_set_hostflags(session.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (::SSL_set1_host(session.get(), host.text().c_str()) != 1 ||
      SSL_set_tlsext_host_name(session.get(), host.text().c_str()) != 1 ||
      ::SSL_set_alpn_protos(session.get(), kHttp1.data(), kHttp1.size()) != 0) {
    return failure(Errc::Internal, "TLS: " + last_error());
  }
  ::SSL_set_connect_state(session.get());
  return session;
}

Result<TlsSession> server_session(SSL_CTX* context) {
  TlsSession session = TRY(new_session(context));
  ::SSL_set_accept_state(session.get());
  return session;
}

std::string tls_fault(const SSL* session) {
  const long verdict = ::SSL_get_verify_result(session);
  if (verdict != X509_V_OK) {
    ::ERR_clear_error();
    return fmt::format("TLS: the host's certificate: {}", ::X509_verify_cert_error_string(verdict));
  }
  return "TLS: " + last_error();
}

}  // namespace caisson::egress
