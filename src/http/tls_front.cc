#include "http/tls_front.h"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstddef>
#include <vector>

#include "http/connection.h"

namespace caisson::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// One record of TLS: what each direction holds at most, beside the kernel's buffers.
constexpr std::size_t kRelayBytes = 16UL * 1024;

class AsioFront;

class AsioRelay final : public TlsRelay, public std::enable_shared_from_this<AsioRelay> {
 public:
  AsioRelay(std::shared_ptr<ServerCore> core, std::shared_ptr<Seat> seat, Socket socket,
            std::shared_ptr<AsioFront> front);

  awaitable<std::optional<Socket>> handshake() override;
  awaitable<void> run() override;
  void on_tick() override;
  void on_stop() override;
  void cut() override;

 private:
  static awaitable<void> inward(std::shared_ptr<AsioRelay> self);
  awaitable<void> outward();
  void arm(std::uint32_t seconds) noexcept { deadline_ = core_->tick + seconds + 1; }

  std::shared_ptr<AsioFront> front_;
  asio::ssl::stream<Socket> stream_;
  Socket plain_;
  std::uint64_t deadline_ = 0;
  bool shaken_ = false;
  bool ending_ = false;
};

class AsioFront final : public TlsFront, public std::enable_shared_from_this<AsioFront> {
 public:
  AsioFront() : context_(asio::ssl::context::tls_server) {}
  [[nodiscard]] Result<void> load(const std::string& certificate_file, const std::string& key_file);
  [[nodiscard]] std::shared_ptr<TlsRelay> relay(std::shared_ptr<ServerCore> core,
                                                std::shared_ptr<Seat> seat,
                                                Socket socket) override {
    return std::make_shared<AsioRelay>(std::move(core), std::move(seat), std::move(socket),
                                       shared_from_this());
  }
  [[nodiscard]] asio::ssl::context& context() noexcept { return context_; }
  // Where a connection's limits stand, for the choice of the protocol.
  [[nodiscard]] int slot() const noexcept { return slot_; }

 private:
  static int choose(SSL* ssl, const unsigned char** out, unsigned char* size,
                    const unsigned char* in, unsigned int in_size, void* self);

  asio::ssl::context context_;
  int slot_ = -1;
};

// ALPN: HTTP/2 where it is served and offered, else HTTP/1.1. A client that offers neither is not
// sent away: what it says first decides.
int AsioFront::choose(SSL* ssl, const unsigned char** out, unsigned char* size,
                      const unsigned char* in, unsigned int in_size, void* self) {
  static constexpr std::array<unsigned char, 12> kNames{2,   'h', '2', 8,   'h', 't',
                                                        't', 'p', '/', '1', '.', '1'};
  constexpr std::size_t kHttp2Bytes = 3;
  const auto* limits =
      static_cast<const Limits*>(SSL_get_ex_data(ssl, static_cast<AsioFront*>(self)->slot_));
  const std::size_t skipped = limits != nullptr && limits->http2 ? 0 : kHttp2Bytes;
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, size, kNames.data() + skipped,
                            static_cast<unsigned>(kNames.size() - skipped), in,
                            in_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

Result<void> AsioFront::load(const std::string& certificate_file, const std::string& key_file) {
  error_code ec;
  (void)context_.use_certificate_chain_file(certificate_file, ec);
  if (ec) {
    return bad_field("certificate", "certificate '" + certificate_file + "': " + ec.message() +
                                        "; want a readable file in PEM with the whole chain");
  }
  (void)context_.use_private_key_file(key_file, asio::ssl::context::pem, ec);
  if (ec) {
    return bad_field("key", "key '" + key_file + "': " + ec.message() +
                                "; want the certificate's private key in PEM, without a password");
  }
  SSL_CTX* native = context_.native_handle();
  if (SSL_CTX_check_private_key(native) != 1) {
    return bad_field("key", "key '" + key_file + "': does not belong to the certificate '" +
                                certificate_file + "'");
  }
  slot_ = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  if (slot_ < 0 || SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION) != 1) {
    return failure(Errc::Internal, "TLS: OpenSSL refuses the settings");
  }
  SSL_CTX_set_options(
      native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // An idle connection gives its buffers back, and no list of sessions grows.
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(native, choose, this);
  return {};
}

AsioRelay::AsioRelay(std::shared_ptr<ServerCore> core, std::shared_ptr<Seat> seat, Socket socket,
                     std::shared_ptr<AsioFront> front)
    : TlsRelay(std::move(core), std::move(seat)),
      front_(std::move(front)),
      stream_(std::move(socket), front_->context()),
      plain_(core_->executor) {
  SSL_set_ex_data(stream_.native_handle(), front_->slot(), const_cast<Limits*>(&core_->limits));
  arm(core_->limits.header_seconds);
}

awaitable<std::optional<Socket>> AsioRelay::handshake() {
  error_code ec;
  co_await stream_.async_handshake(asio::ssl::stream_base::server,
                                   asio::redirect_error(asio::use_awaitable, ec));
  if (ec) co_return std::nullopt;
  deadline_ = 0;
  shaken_ = true;
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    co_return std::nullopt;
  }
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const asio::generic::stream_protocol protocol(AF_UNIX, 0);
  Socket other(core_->executor);
  (void)plain_.assign(protocol, ours.get(), ec);
  if (ec) co_return std::nullopt;
  (void)ours.release();
  (void)other.assign(protocol, theirs.get(), ec);
  if (ec) co_return std::nullopt;
  (void)theirs.release();
  co_return std::optional<Socket>(std::move(other));
}

awaitable<void> AsioRelay::run() {
  asio::co_spawn(core_->executor, inward(shared_from_this()), asio::detached);
  co_await outward();
  // Says that all was said, and waits a moment for the peer to have heard it.
  ending_ = true;
  arm(std::min(kLingerSeconds, core_->limits.stall_seconds));
  error_code ignored;
  co_await stream_.async_shutdown(asio::redirect_error(asio::use_awaitable, ignored));
  cut();
}

// From the peer. Its end becomes an end of the plain side; after ours what comes is dropped.
awaitable<void> AsioRelay::inward(std::shared_ptr<AsioRelay> self) {
  std::vector<char> room(kRelayBytes);
  error_code ec;
  std::size_t dropped = 0;
  bool heard = true;
  while (dropped < kLingerBytesMax) {
    const std::size_t got = co_await self->stream_.async_read_some(
        asio::buffer(room), asio::redirect_error(asio::use_awaitable, ec));
    if (ec || got == 0) break;
    if (!heard || self->ending_) {
      dropped += got;
      continue;
    }
    co_await asio::async_write(self->plain_, asio::buffer(room.data(), got),
                               asio::redirect_error(asio::use_awaitable, ec));
    heard = !ec;
  }
  if (self->plain_.is_open()) (void)::shutdown(self->plain_.native_handle(), SHUT_WR);
  // Nothing is left that run() could wait for.
  if (self->ending_) self->cut();
}

awaitable<void> AsioRelay::outward() {
  std::vector<char> room(kRelayBytes);
  error_code ec;
  for (;;) {
    const std::size_t got = co_await plain_.async_read_some(
        asio::buffer(room), asio::redirect_error(asio::use_awaitable, ec));
    if (ec || got == 0) co_return;
    arm(core_->limits.stall_seconds);
    co_await asio::async_write(stream_, asio::buffer(room.data(), got),
                               asio::redirect_error(asio::use_awaitable, ec));
    deadline_ = 0;
    if (ec) co_return;
  }
}

void AsioRelay::on_tick() {
  if (deadline_ != 0 && core_->tick >= deadline_) cut();
}

// Behind the handshake whoever reads the plain bytes knows what is under way.
void AsioRelay::on_stop() {
  if (!shaken_) cut();
}

void AsioRelay::cut() {
  auto& socket = stream_.next_layer();
  if (socket.is_open()) (void)::shutdown(socket.native_handle(), SHUT_RDWR);
  if (plain_.is_open()) (void)::shutdown(plain_.native_handle(), SHUT_RDWR);
}

}  // namespace

Result<std::shared_ptr<TlsFront>> TlsFront::make(const std::string& certificate_file,
                                                 const std::string& key_file) {
  std::shared_ptr<AsioFront> front;
  try {
    front = std::make_shared<AsioFront>();
  } catch (...) {
    return failure(Errc::Internal, "TLS: OpenSSL has no context to give");
  }
  TRY(front->load(certificate_file, key_file));
  return std::shared_ptr<TlsFront>(std::move(front));
}

}  // namespace caisson::http
