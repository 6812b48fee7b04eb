#include "http/server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <chrono>
#include <list>
#include <vector>

#include "http/connection.h"
#include "http/http2_connection.h"
#include "http/opening.h"
#include "http/origin.h"
#include "http/tls_front.h"

namespace caisson::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds kTick{1};
// While descriptors are short, accepting again at once would spin.
constexpr std::chrono::milliseconds kAcceptPause{100};
// Connections taken before others on the thread have their turn.
constexpr int kAcceptBurstMax = 64;

using Listener = asio::posix::stream_descriptor;

// What outlives the Server object while coroutines run.
struct Shared {
  explicit Shared(std::shared_ptr<ServerCore> the_core)
      : core(std::move(the_core)), ticker(core->executor) {}
  std::shared_ptr<ServerCore> core;
  std::list<Listener> listeners;
  asio::steady_timer ticker;
  bool ticking = false;
};

// Runs only while there are connections: an idle server sleeps.
awaitable<void> run_ticks(std::shared_ptr<Shared> shared) {
  ServerCore& core = *shared->core;
  while (!core.connections.empty()) {
    shared->ticker.expires_after(kTick);
    error_code ec;
    co_await shared->ticker.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    ++core.tick;
    for_each_connection(core, [](Served& one) { one.on_tick(); });
  }
  shared->ticking = false;
}

awaitable<void> serve_http1(std::unique_ptr<Connection> connection) {
  try {
    co_await connection->run();
  } catch (...) {
    connection->cut();  // an empty heap, or a bug of ours: it costs this connection
  }
}

awaitable<void> serve_http2(std::shared_ptr<Http2Connection> connection, std::string first) {
  try {
    co_await connection->run(std::move(first));
  } catch (...) {
    connection->cut();
  }
}

// What a connection is made of, until somebody speaks on it.
struct Arrival {
  std::shared_ptr<ServerCore> core;
  std::shared_ptr<Seat> seat;
  Peer peer;
};

awaitable<void> serve_either(Arrival arrival, std::unique_ptr<Opening> opening) {
  const Dialect dialect = co_await opening->wait();
  if (dialect == Dialect::None) co_return;
  std::string first = opening->take_bytes();
  // The next is there before the last one goes: a server that stops waits for both.
  if (dialect == Dialect::Http2) {
    auto connection = std::make_shared<Http2Connection>(arrival.core, arrival.seat,
                                                        opening->take_socket(), arrival.peer);
    opening.reset();
    co_await serve_http2(std::move(connection), std::move(first));
    co_return;
  }
  auto connection = std::make_unique<Connection>(arrival.core, arrival.seat, opening->take_socket(),
                                                 arrival.peer, first);
  opening.reset();
  co_await serve_http1(std::move(connection));
}

void start(Arrival arrival, Socket socket) {
  const asio::any_io_executor executor = arrival.core->executor;
  if (arrival.core->limits.http2) {
    auto opening = std::make_unique<Opening>(arrival.core, arrival.seat, std::move(socket));
    asio::co_spawn(executor, serve_either(std::move(arrival), std::move(opening)), asio::detached);
  } else {
    auto connection = std::make_unique<Connection>(arrival.core, arrival.seat, std::move(socket),
                                                   std::move(arrival.peer));
    asio::co_spawn(executor, serve_http1(std::move(connection)), asio::detached);
  }
}

awaitable<void> serve_tls(Arrival arrival, std::shared_ptr<TlsRelay> relay) {
  auto plain = co_await relay->handshake();
  if (!plain || arrival.core->stopping) co_return;
  start(std::move(arrival), std::move(*plain));
  co_await relay->run();
}

void refuse(ServerCore& core, int fd) {
  std::string id;
  core.write_id(id);
  const Error error{Errc::Exhausted, "too many connections: try again later"};
  const std::string body = core.error_body(503, error, id);
  const std::vector<Field> fields{{"Retry-After", "1"}};
  ResponseHead head;
  head.status = 503;
  head.content_type = "application/json";
  head.date = core.date.now();
  head.request_id = id;
  head.fields = fields;
  head.length = body.size();
  head.connection = "close";
  std::string out;
  write_head(head, out);
  out += body;
  // A fresh socket has room for it. Reading what came already keeps the close from being a reset.
  (void)::send(fd, out.data(), out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  (void)::shutdown(fd, SHUT_WR);
  char scratch[4096];
  (void)::recv(fd, scratch, sizeof scratch, MSG_DONTWAIT);
}

void take(const std::shared_ptr<Shared>& shared, const std::shared_ptr<TlsFront>& tls, UniqueFd fd,
          const sockaddr_storage& address) {
  Origin origin = origin_of(address);
  ServerCore& core = *shared->core;
  if (!core.has_room(origin.key)) {
    ++core.counters.refused;
    if (!tls) refuse(core, fd.get());
    return;
  }
  Socket socket(core.executor);
  error_code ec;
  const asio::generic::stream_protocol protocol(address.ss_family, 0);
  (void)socket.assign(protocol, fd.get(), ec);
  if (ec) return;
  (void)fd.release();
  // Counted from here on, not from when its coroutine has its first turn.
  Arrival arrival{shared->core, std::make_shared<Seat>(shared->core, std::move(origin.key)),
                  std::move(origin.peer)};
  if (tls) {
    auto relay = tls->relay(shared->core, arrival.seat, std::move(socket));
    asio::co_spawn(core.executor, serve_tls(std::move(arrival), std::move(relay)), asio::detached);
  } else {
    start(std::move(arrival), std::move(socket));
  }
  if (!shared->ticking) {
    shared->ticking = true;
    asio::co_spawn(core.executor, run_ticks(shared), asio::detached);
  }
}

// True: wait for the next connection. False: no descriptor is free.
bool accept_some(const std::shared_ptr<Shared>& shared, const std::shared_ptr<TlsFront>& tls,
                 int listener) {
  for (int taken = 0; taken < kAcceptBurstMax; ++taken) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    // accept4 and not Asio's accept: the descriptor is born with O_CLOEXEC.
    UniqueFd fd(::accept4(listener, reinterpret_cast<sockaddr*>(&address), &size,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      const int reason = errno;
      if (reason == EINTR || reason == ECONNABORTED || reason == EPROTO) continue;
      return reason != EMFILE && reason != ENFILE && reason != ENOBUFS && reason != ENOMEM;
    }
    take(shared, tls, std::move(fd), address);
  }
  return true;
}

awaitable<void> accept_loop(std::shared_ptr<Shared> shared, Listener& listener,
                            std::shared_ptr<TlsFront> tls) {
  asio::steady_timer pause(shared->core->executor);
  while (!shared->core->stopping) {
    error_code ec;
    co_await listener.async_wait(Listener::wait_read,
                                 asio::redirect_error(asio::use_awaitable, ec));
    if (ec || shared->core->stopping) co_return;
    if (accept_some(shared, tls, listener.native_handle())) continue;
    pause.expires_after(kAcceptPause);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ec));
  }
}

class AsioServer final : public Server {
 public:
  explicit AsioServer(std::shared_ptr<ServerCore> core)
      : shared_(std::make_shared<Shared>(std::move(core))) {}
  // Handlers and their objects may go right after us: nothing of ours may start another request.
  ~AsioServer() override {
    shared_->core->done = nullptr;
    stop(nullptr);
    for_each_connection(*shared_->core, [](Served& one) { one.cut(); });
  }
  AsioServer(const AsioServer&) = delete;
  AsioServer& operator=(const AsioServer&) = delete;
  AsioServer(AsioServer&&) = delete;
  AsioServer& operator=(AsioServer&&) = delete;

  Result<void> listen(UniqueFd socket, std::shared_ptr<TlsFront> tls) override;
  void stop(std::function<void()> done) override;
  [[nodiscard]] ServerCounters counters() const noexcept override {
    return shared_->core->counters;
  }

 private:
  std::shared_ptr<Shared> shared_;
};

Result<void> AsioServer::listen(UniqueFd socket, std::shared_ptr<TlsFront> tls) {
  int listening = 0;
  socklen_t size = sizeof listening;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0) {
    return sys_failure("listen: not a socket", errno);
  }
  if (listening == 0) return failure(Errc::InvalidArgument, "listen: the socket does not listen");
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return sys_failure("listen: fcntl", errno);
  }
  // Connections inherit both; a unix socket has no use for the first and says so.
  const int on = 1;
  (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  Listener& listener = shared_->listeners.emplace_back(shared_->core->executor);
  error_code ec;
  (void)listener.assign(socket.get(), ec);
  if (ec) {
    shared_->listeners.pop_back();
    return sys_failure("listen", ec.value());
  }
  (void)socket.release();
  asio::co_spawn(shared_->core->executor, accept_loop(shared_, listener, std::move(tls)),
                 asio::detached);
  return {};
}

void AsioServer::stop(std::function<void()> done) {
  ServerCore& core = *shared_->core;
  if (done) core.done = std::move(done);
  const bool again = std::exchange(core.stopping, true);
  for (Listener& listener : shared_->listeners) {
    error_code ignored;
    (void)listener.close(ignored);
  }
  for_each_connection(core, [again](Served& one) { again ? one.cut() : one.on_stop(); });
  finish_stop(core);
}

}  // namespace

std::unique_ptr<Server> Server::make(asio::any_io_executor executor, Handler& handler,
                                     const Limits& limits, ErrorBody on_error) {
  auto core =
      std::make_shared<ServerCore>(std::move(executor), handler, limits, std::move(on_error));
  // Ids of two runs should not meet; if the kernel has no randomness, they only do.
  (void)!::getrandom(&core->next_id, sizeof core->next_id, GRND_NONBLOCK);
  return std::make_unique<AsioServer>(std::move(core));
}

}  // namespace caisson::http
