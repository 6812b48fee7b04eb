#include "control/host_proxy.h"

#include <fcntl.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/steady_timer.hpp>

#include "egress/gate/deadline.h"
#include "egress/gate/http_heads.h"
#include "egress/gate/stream.h"
#include "http/request_head.h"

namespace caisson::control {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr http::Limits kLimits;
constexpr seconds kHeadPatience{10};
constexpr std::size_t kPieceBytes = 4096;
constexpr milliseconds kAcceptPause{100};

// The value of the only Proxy-Authorization of a whole head; nothing while it is not whole, and an
// empty one for a head that is none.
std::optional<std::string> authorization_in(http::HeadScanner& scanner, const std::string& in) {
  const auto scanned = scanner.scan(in, kLimits);
  if (!scanned) return "";
  if (!*scanned) return std::nullopt;
  http::Request request;
  http::Framing framing;
  const std::string_view head =
      std::string_view(in).substr(scanner.skipped(), **scanned - scanner.skipped());
  if (!http::read_proxy_head(head, kLimits, request, framing)) return "";
  if (request.count("Proxy-Authorization") != 1) return "";
  return std::string(request.field("Proxy-Authorization"));
}

// Until the head is whole. Nothing: it did not come.
asio::awaitable<std::optional<std::string>> read_authorization(egress::Stream& client,
                                                               std::string& in) {
  http::HeadScanner scanner;
  for (;;) {
    const std::size_t had = in.size();
    in.resize(had + kPieceBytes);
    const egress::Io got = client.try_read(in.data() + had, kPieceBytes);
    in.resize(had + got.bytes);
    if (got.state == egress::IoState::Moved) {
      if (auto found = authorization_in(scanner, in)) co_return found;
      continue;
    }
    if (got.state != egress::IoState::WouldBlock) co_return std::nullopt;
    if (!co_await client.wait_read()) co_return std::nullopt;
  }
}

}  // namespace

Result<std::shared_ptr<HostProxy>> HostProxy::open(const asio::any_io_executor& executor,
                                                   const std::string& host, std::uint16_t port,
                                                   Find find) {
  error_code failed;
  const asio::ip::address address = asio::ip::make_address(host, failed);
  if (failed) return failure(Errc::InvalidArgument, "'" + host + "' is no address");
  std::shared_ptr<HostProxy> out(new HostProxy(executor, std::move(find)));
  const tcp::endpoint place(address, port);
  (void)out->acceptor_.open(place.protocol(), failed);
  if (!failed) (void)out->acceptor_.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) (void)out->acceptor_.bind(place, failed);
  if (!failed) (void)out->acceptor_.listen(asio::socket_base::max_listen_connections, failed);
  if (failed) return sys_failure("listen on " + host, failed.value());
  out->port_ = out->acceptor_.local_endpoint(failed).port();
  out->accept();
  return out;
}

void HostProxy::close() noexcept {
  error_code ignored;
  (void)acceptor_.close(ignored);
}

void HostProxy::accept() {
  acceptor_.async_accept([weak = weak_from_this()](const error_code& failed, tcp::socket socket) {
    const auto self = weak.lock();
    if (!self || !self->acceptor_.is_open()) return;
    if (failed) {
      // Descriptors are short: at once again would spin.
      auto pause = std::make_shared<asio::steady_timer>(self->executor_, kAcceptPause);
      pause->async_wait([weak, pause](const error_code&) {
        if (const auto later = weak.lock(); later && later->acceptor_.is_open()) later->accept();
      });
      return;
    }
    error_code ignored;
    UniqueFd fd(socket.release(ignored));
    if (fd && self->waiting_ < kHostProxyWaitingMax)
      asio::co_spawn(self->executor_, serve(self, std::move(fd)), asio::detached);
    self->accept();
  });
}

asio::awaitable<void> HostProxy::serve(std::shared_ptr<HostProxy> self, UniqueFd fd) {
  egress::Stream client(self->executor_);
  if (!client.assign(std::move(fd))) co_return;
  egress::Deadline deadline(self->executor_, [&client] { client.close(); });
  deadline.set(kHeadPatience);
  ++self->waiting_;
  std::string in;
  const auto said = co_await read_authorization(client, in);
  --self->waiting_;
  deadline.clear();
  if (!said || !client.is_open()) co_return;
  const std::shared_ptr<egress::Gate> gate = self->find_(*said);
  if (gate) {
    UniqueFd own(::fcntl(client.fd(), F_DUPFD_CLOEXEC, 3));
    client.close();
    const egress::Endpoint inside{*egress::IpAddress::parse("127.0.0.1"), egress::kProxyPort};
    if (own) gate->take(std::move(own), egress::arrival_at(inside), std::move(in));
    co_return;
  }
  const std::string bytes =
      egress::own_answer({407, "the proxy wants the token of a living sandbox\n",
                          "Proxy-Authenticate: Basic realm=\"egress\""},
                         false, false);
  (void)client.try_write(bytes);
  client.finish_writing();
  deadline.set(seconds(1));
  char rest[4096];
  std::size_t dropped = 0;
  while (dropped < 65536) {  // a close with unread bytes would take the answer with it
    const egress::Io got = client.try_read(rest, sizeof rest);
    dropped += got.bytes;
    if (got.state == egress::IoState::Moved) continue;
    if (got.state != egress::IoState::WouldBlock || !co_await client.wait_read()) break;
  }
}

}  // namespace caisson::control
