#include "image/link.h"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <optional>

namespace caisson::image {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

struct Link::State : std::enable_shared_from_this<Link::State> {
  State(const asio::any_io_executor& executor, Url to, const RegistryOptions& with)
      : url(std::move(to)), stall(with.stall_timeout), socket(executor), timer(executor) {}

  Url url;
  milliseconds stall;
  tcp::socket socket;
  std::optional<asio::ssl::stream<tcp::socket&>> tls;
  asio::steady_timer timer;
  bool late = false;

  // From now on for so long: then the socket is closed and whatever waits on it ends.
  void watch(milliseconds time) {
    timer.expires_after(time);
    timer.async_wait([weak = weak_from_this()](const error_code& ec) {
      const auto self = weak.lock();
      if (ec || !self || self->timer.expiry() > Clock::now()) return;
      self->late = true;
      error_code ignored;
      self->socket.close(ignored);
    });
  }
  void unwatch() { timer.cancel(); }

  [[nodiscard]] std::unexpected<Error> trouble(std::string_view what, const error_code& ec) const {
    if (late) {
      return failure(Errc::TimedOut,
                     fmt::format("{}: {}: nothing came in time", url.authority(), what));
    }
    if (ec == asio::error::operation_aborted) {
      return failure(Errc::Gone, fmt::format("{}: cancelled", url.authority()));
    }
    return failure(Errc::Gone, fmt::format("{}: {}: {}", url.authority(), what, ec.message()));
  }
};

namespace {

using Addresses = std::vector<asio::ip::address>;

// An IPv4 address inside an IPv6 one is what the kernel would connect to.
asio::ip::address unmapped(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return address;
}

awaitable<Result<Addresses>> look_up(const RegistryOptions& options, std::string host) {
  error_code ec;
  const auto literal = asio::ip::make_address(host, ec);
  if (!ec) co_return Addresses{literal};
  if (host == "localhost") {
    co_return Addresses{asio::ip::address_v4::loopback(), asio::ip::address_v6::loopback()};
  }
  if (options.resolve) co_return co_await options.resolve(host);
  co_return failure(Errc::Unsupported, fmt::format("nobody resolves the name '{}'", host));
}

// One refused address refuses the name: its owner could make us try until the other one answers.
Result<void> judge_all(const RegistryOptions& options, const Url& url, Addresses& addresses) {
  if (addresses.empty()) {
    return failure(Errc::Gone, fmt::format("{} has no address", url.host));
  }
  if (addresses.size() > kAddressesMax) addresses.resize(kAddressesMax);
  if (!options.judge) {
    return failure(Errc::Denied, "nobody says which addresses a registry may have");
  }
  for (asio::ip::address& address : addresses) {
    address = unmapped(address);
    TRY_IN(url.authority(), options.judge(address, url.host, url.port));
    // A name that is spoken to without TLS because it is this machine must lead to this machine.
    if (!url.tls && url.host == "localhost" && !address.is_loopback()) {
      return failure(Errc::Denied, "localhost is not this machine");
    }
  }
  return {};
}

Result<void> prepare_tls(SSL* ssl, const Url& url) {
  error_code ec;
  const auto literal = asio::ip::make_address(url.host, ec);
  const bool is_address = !ec;
  bool good = true;
  if (is_address) {
    good = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), literal.to_string().c_str()) == 1;
  } else {
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    good = SSL_set1_host(ssl, url.host.c_str()) == 1 &&
           SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                    const_cast<char*>(url.host.c_str())) == 1;
  }
  if (!good) return failure(Errc::Internal, "TLS cannot be set up");
  return {};
}

}  // namespace

Result<std::unique_ptr<asio::ssl::context>> make_tls_context(const std::string& extra_ca_file) {
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_client);
  error_code ec;
  SSL_CTX* raw = context->native_handle();
  if (SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION) != 1) {
    return failure(Errc::Internal, "TLS 1.2 cannot be asked for");
  }
  (void)context->set_verify_mode(asio::ssl::verify_peer, ec);
  (void)context->set_default_verify_paths(ec);
  if (ec) return failure(Errc::Internal, "the system's authorities: " + ec.message());
  if (!extra_ca_file.empty()) {
    (void)context->load_verify_file(extra_ca_file, ec);
    if (ec) {
      return bad_field("ca_file", fmt::format("'{}' holds no certificate of an authority: {}",
                                              extra_ca_file, ec.message()));
    }
  }
  return context;
}

Link::Link(std::shared_ptr<State> state) : state_(std::move(state)) {}
Link::~Link() {
  state_->unwatch();
  error_code ignored;
  state_->socket.close(ignored);
}

awaitable<Result<std::unique_ptr<Link>>> Link::connect(asio::any_io_executor executor,
                                                       asio::ssl::context& tls,
                                                       const RegistryOptions& options, Url url) {
  auto addresses = co_await look_up(options, url.host);
  if (!addresses) co_return std::unexpected(addresses.error());
  const auto judged = judge_all(options, url, *addresses);
  if (!judged) co_return std::unexpected(judged.error());
  auto state = std::make_shared<State>(executor, url, options);
  std::unique_ptr<Link> link(new Link(state));
  error_code ec;
  auto into = asio::redirect_error(asio::use_awaitable, ec);
  for (const asio::ip::address& address : *addresses) {
    error_code ignored;
    state->socket.close(ignored);
    state->late = false;
    state->watch(options.connect_timeout);
    const tcp::endpoint endpoint(address, url.port);
    co_await state->socket.async_connect(endpoint, into);
    // Cancelled: no further address is tried.
    if (!ec || (ec == asio::error::operation_aborted && !state->late)) break;
  }
  if (ec) co_return state->trouble("connect", ec);
  if (url.tls) {
    state->tls.emplace(state->socket, tls);
    const auto ready = prepare_tls(state->tls->native_handle(), url);
    if (!ready) co_return std::unexpected(ready.error());
    state->watch(options.connect_timeout);
    co_await state->tls->async_handshake(asio::ssl::stream_base::client, into);
    if (ec && SSL_get_verify_result(state->tls->native_handle()) != X509_V_OK) {
      const char* why =
          X509_verify_cert_error_string(SSL_get_verify_result(state->tls->native_handle()));
      co_return failure(Errc::Protocol, fmt::format("{}: its certificate is not accepted: {}",
                                                    url.authority(), why));
    }
    if (ec) co_return state->trouble("TLS handshake", ec);
  }
  state->unwatch();
  (void)state->socket.set_option(tcp::no_delay(true), ec);
  co_return link;
}

awaitable<Result<std::size_t>> Link::read_some(std::span<std::byte> out) {
  error_code ec;
  auto into = asio::redirect_error(asio::use_awaitable, ec);
  const auto buffer = asio::buffer(out.data(), out.size());
  state_->watch(state_->stall);
  std::size_t got = 0;
  if (state_->tls) {
    got = co_await state_->tls->async_read_some(buffer, into);
  } else {
    got = co_await state_->socket.async_read_some(buffer, into);
  }
  state_->unwatch();
  // A peer that leaves without TLS's goodbye: whoever reads counts the bytes, and misses none.
  if (ec == asio::error::eof || ec == asio::ssl::error::stream_truncated) co_return 0;
  if (ec) co_return state_->trouble("read", ec);
  co_return got;
}

awaitable<Result<void>> Link::write(std::string_view bytes) {
  error_code ec;
  auto into = asio::redirect_error(asio::use_awaitable, ec);
  const auto buffer = asio::buffer(bytes.data(), bytes.size());
  state_->watch(state_->stall);
  if (state_->tls) {
    co_await asio::async_write(*state_->tls, buffer, into);
  } else {
    co_await asio::async_write(state_->socket, buffer, into);
  }
  state_->unwatch();
  if (ec) co_return state_->trouble("write", ec);
  co_return Result<void>();
}

}  // namespace caisson::image
