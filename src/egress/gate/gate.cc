#include "egress/gate/gate.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cerrno>
#include <utility>

#include "egress/gate/connection.h"
#include "egress/gate/gate_core.h"
#include "egress/gate/http_relay.h"
#include "egress/gate/name_service.h"
#include "egress/gate/socks_door.h"
#include "egress/gate/tool_fetch.h"
#include "egress/gate/tunnel.h"

namespace caisson::egress {

namespace asio = boost::asio;
using boost::system::error_code;
using Listener = asio::posix::stream_descriptor;

namespace {

// Connections taken before others on the thread have their turn.
constexpr int kAcceptBurstMax = 64;
// While descriptors are short, accepting again at once would spin.
constexpr milliseconds kAcceptPause{100};
constexpr char kSocksVersion = 5;

asio::awaitable<void> serve_proxy(Connection& connection) {
  connection.deadline.set(connection.core->times.first);
  if (connection.in.empty() && co_await connection.fill_in() != Fill::More) co_return;
  if (connection.in.front() == kSocksVersion) {
    co_await serve_socks(connection);
    co_return;
  }
  HttpRelay relay(connection);
  co_await relay.run();
}

// To an address that stands for a name. There is no way to say no but a reset.
asio::awaitable<void> serve_transparent(Connection& connection, Endpoint to) {
  Asked asked;
  asked.way = Way::Transparent;
  asked.request.identity = Identity::Confirmed;
  asked.request.port = to.port;
  asked.request.sight = Sight::Readable;
  const HostName* name = connection.core->book.find(to.address);
  asked.host = name != nullptr ? name->text() : to_string(to.address);
  if (name != nullptr) {
    asked.request.host = *name;
  } else {
    asked.request.host = to.address;
  }
  Verdict verdict = co_await connection.admit(asked);
  if (verdict.outcome == Outcome::Deny || connection.is_cut()) {
    connection.cut();
    co_return;
  }
  const auto reached = co_await connection.reach(asked, std::move(verdict));
  if (!reached) {
    connection.cut();
    co_return;
  }
  co_await run_tunnel(connection, std::move(asked));
}

asio::awaitable<void> serve(std::shared_ptr<Connection> connection, Arrival arrival) {
  try {
    switch (arrival.role) {
      case Role::Proxy:
        co_await serve_proxy(*connection);
        break;
      case Role::Resolver:
        co_await serve_names_tcp(*connection);
        break;
      case Role::Transparent:
        co_await serve_transparent(*connection, arrival.to);
        break;
      case Role::Stranger:
        break;
    }
  } catch (...) {
    connection->cut();  // an empty heap, or a bug of ours: it costs this connection
  }
}

void hang_up(const UniqueFd& fd) {
  const linger hard{1, 0};
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
}

void admit(const std::shared_ptr<GateCore>& core, UniqueFd fd, Arrival arrival,
           std::string early = {}) {
  if (core->connections.size() >= kGateConnectionsMax || arrival.role == Role::Stranger) {
    hang_up(fd);
    return;
  }
  auto connection = std::make_shared<Connection>(core);
  if (!connection->client.assign(std::move(fd))) return;
  connection->handed_over = !early.empty();
  connection->in = std::move(early);
  asio::co_spawn(core->executor, serve(std::move(connection), arrival), asio::detached);
}

// False: no descriptor is free.
bool accept_some(const std::shared_ptr<GateCore>& core, int listener) {
  for (int taken = 0; taken < kAcceptBurstMax && !core->closed; ++taken) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      const int reason = errno;
      if (reason == EINTR || reason == ECONNABORTED || reason == EPROTO) continue;
      return reason != EMFILE && reason != ENFILE && reason != ENOBUFS && reason != ENOMEM;
    }
    const auto to = local_endpoint(fd.get());
    if (!to) continue;
    admit(core, std::move(fd), arrival_at(*to, core->proxy.port));
  }
  return true;
}

void listen(const std::shared_ptr<GateCore>& core, Listener& listener);

void listen_later(const std::shared_ptr<GateCore>& core, Listener& listener) {
  auto pause = std::make_shared<asio::steady_timer>(core->executor, kAcceptPause);
  pause->async_wait([core, &listener, pause](const error_code&) {
    if (!core->closed) listen(core, listener);
  });
}

// The listener lives in the core, which the handler keeps.
void listen(const std::shared_ptr<GateCore>& core, Listener& listener) {
  listener.async_wait(Listener::wait_read, [core, &listener](const error_code& ec) {
    if (ec || core->closed) return;
    const bool fine = accept_some(core, listener.native_handle());
    if (core->closed) return;
    if (fine) {
      listen(core, listener);
    } else {
      listen_later(core, listener);
    }
  });
}

Result<void> take_over(Listener& descriptor, UniqueFd& fd) {
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return sys_failure("a socket inside", errno);
  }
  error_code ec;
  (void)descriptor.assign(fd.get(), ec);
  if (ec) return sys_failure("a socket inside", ec.value());
  (void)fd.release();
  return {};
}

}  // namespace

std::string_view to_string(Way way) noexcept {
  switch (way) {
    case Way::Http:
      return "http";
    case Way::Connect:
      return "connect";
    case Way::Socks5:
      return "socks5";
    case Way::Transparent:
      return "transparent";
    case Way::Resolver:
      return "resolver";
    case Way::Gateway:
      return "gateway";
    case Way::Tool:
      return "tool";
  }
  return "http";
}

Result<std::unique_ptr<Gate>> Gate::open(asio::any_io_executor executor, InsideSockets sockets,
                                         GateOptions options) {
  if (!options.resolver) return failure(Errc::InvalidArgument, "a gate needs a resolver");
  auto core = std::make_shared<GateCore>(std::move(executor), std::move(options));
  for (UniqueFd& fd : sockets.listeners) {
    TRY(take_over(core->listeners.emplace_back(core->executor), fd));
  }
  if (sockets.resolver) TRY(take_over(core->name_socket, sockets.resolver));
  core->held = std::move(sockets.held);
  for (Listener& listener : core->listeners) listen(core, listener);
  if (core->name_socket.is_open()) serve_names(core);
  return std::unique_ptr<Gate>(new Gate(std::move(core)));
}

Gate::Gate(std::shared_ptr<GateCore> core) noexcept : core_(std::move(core)) {}

Gate::~Gate() { close(); }

void Gate::take(UniqueFd connection, Arrival arrival, std::string early) {
  if (core_->closed) return;
  admit(core_, std::move(connection), arrival, std::move(early));
}

asio::awaitable<Result<ToolAnswer>> Gate::fetch(ToolRequest request) {
  return fetch_for_tool(core_, std::move(request));
}

void Gate::replace_rules(Rules rules) {
  core_->ledger.replace(std::move(rules), Clock::now());
  for (Connection* connection : core_->connections) connection->judge_again();
}

GateCounts Gate::counts() const noexcept {
  GateCounts counts = core_->counts;
  counts.open = core_->connections.size();
  return counts;
}

void Gate::close() noexcept {
  if (core_->closed) return;
  // Each is told to have ended before nobody is told anything any more.
  for (Connection* connection : core_->connections) connection->cut();
  tell_held_names(*core_, TimePoint::max());
  core_->closed = true;
  error_code ignored;
  for (Listener& listener : core_->listeners) (void)listener.close(ignored);
  (void)core_->name_socket.close(ignored);
  core_->refused_names.timer().cancel();
  core_->held.clear();
}

}  // namespace caisson::egress
