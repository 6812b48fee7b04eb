#include "egress/gate/tls_client.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>

#include <algorithm>
#include <utility>

#include "egress/gate/tls_session.h"

namespace caisson::egress {

namespace asio = boost::asio;

namespace {

std::string last_error() {
  const unsigned long code = ::ERR_get_error();
  ::ERR_clear_error();
  if (code == 0) return "unknown error";
  const char* reason = ::ERR_reason_error_string(code);
  return reason != nullptr ? reason : fmt::format("error {:x}", code);
}

}  // namespace

Result<std::shared_ptr<TlsTrust>> TlsTrust::load(const std::string& file) {
  Context context(::SSL_CTX_new(::TLS_client_method()), &::SSL_CTX_free);
  if (!context) return failure(Errc::Internal, "TLS: " + last_error());
  ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  (void)::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  const int loaded = file.empty()
                         ? ::SSL_CTX_set_default_verify_paths(context.get())
                         : ::SSL_CTX_load_verify_locations(context.get(), file.c_str(), nullptr);
  if (loaded != 1) {
    return bad_field(
        "trust_store",
        fmt::format("trust_store '{}': not a file of certificates in PEM: {}", file, last_error()));
  }
  return std::shared_ptr<TlsTrust>(new TlsTrust(std::move(context)));
}

Result<std::unique_ptr<TlsClient>> TlsClient::make(std::shared_ptr<TlsTrust> trust,
                                                   const HostName& host, Connection& connection) {
  Session session = TRY(client_session(*trust, host));
  return std::unique_ptr<TlsClient>(
      new TlsClient(std::move(trust), std::move(session), connection));
}

asio::awaitable<Result<void>> TlsClient::move(int outcome) {
  const int wanted = ::SSL_get_error(session_.get(), outcome);
  if (wanted != SSL_ERROR_WANT_READ && wanted != SSL_ERROR_WANT_WRITE && outcome <= 0) {
    co_return failure(Errc::Protocol, tls_fault(session_.get()));
  }
  BIO* out = ::SSL_get_wbio(session_.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  if (size > 0) {
    const std::string leaving(bytes, static_cast<std::size_t>(size));
    (void)BIO_reset(out);
    if (!co_await c_.send_up(leaving)) co_return failure(Errc::Gone, "the host has left");
  }
  if (wanted != SSL_ERROR_WANT_READ) co_return Result<void>();
  if (c_.up_in.empty()) {
    const Fill filled = co_await c_.fill_up_in();
    if (filled != Fill::More) {
      if (c_.deadline.passed()) co_return failure(Errc::TimedOut, "the host does not answer");
      co_return failure(Errc::Gone, "the host has left");
    }
  }
  const int taken = ::BIO_write(::SSL_get_rbio(session_.get()), c_.up_in.data(),
                                static_cast<int>(c_.up_in.size()));
  if (taken <= 0) co_return failure(Errc::Internal, "TLS: " + last_error());
  c_.up_in.erase(0, static_cast<std::size_t>(taken));
  co_return Result<void>();
}

asio::awaitable<Result<void>> TlsClient::handshake() {
  for (;;) {
    ::ERR_clear_error();
    const int outcome = ::SSL_do_handshake(session_.get());
    const auto moved = co_await move(outcome);
    if (!moved) co_return moved;
    if (outcome == 1) co_return Result<void>();
  }
}

asio::awaitable<Result<void>> TlsClient::write(std::string_view bytes) {
  while (!bytes.empty()) {
    constexpr std::size_t kWriteBytesMax = 16384;  // one record
    const int size = static_cast<int>(std::min(bytes.size(), kWriteBytesMax));
    ::ERR_clear_error();
    const int outcome = ::SSL_write(session_.get(), bytes.data(), size);
    const auto moved = co_await move(outcome);
    if (!moved) co_return moved;
    if (outcome > 0) bytes.remove_prefix(static_cast<std::size_t>(outcome));
  }
  co_return Result<void>();
}

asio::awaitable<Result<bool>> TlsClient::read(std::string& into) {
  constexpr std::size_t kReadBytes = 16384;
  for (;;) {
    const std::size_t had = into.size();
    into.resize(had + kReadBytes);
    ::ERR_clear_error();
    const int outcome = ::SSL_read(session_.get(), into.data() + had, static_cast<int>(kReadBytes));
    into.resize(had + static_cast<std::size_t>(std::max(outcome, 0)));
    if (outcome > 0) co_return true;
    if (::SSL_get_error(session_.get(), outcome) == SSL_ERROR_ZERO_RETURN) co_return false;
    const auto moved = co_await move(outcome);
    if (!moved) co_return std::unexpected(moved.error());
  }
}

}  // namespace caisson::egress
