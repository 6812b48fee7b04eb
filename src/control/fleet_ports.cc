// Into the ports of a sandbox: sockets that the launcher opens in its network, and which of them
// have somebody behind them.
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>

#include "control/fleet_impl.h"
#include "policy/way_out.h"

namespace caisson::control {
namespace {

constexpr milliseconds kPortLookMin{1};  // between two looks whether somebody listens
constexpr milliseconds kPortLookMax{20};
constexpr milliseconds kPortWaitMax{60'000};

// "80/tcp", "8080"; nothing for other protocols and for what is no port.
std::optional<std::uint16_t> tcp_port(std::string_view text) {
  if (text.ends_with("/tcp")) text.remove_suffix(4);
  std::uint16_t port = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (wrong != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

// Where the gate listens inside: that is ours, and no program of the guest's.
bool is_way_out(const Sandbox& sandbox, std::uint16_t port) {
  if (!sandbox.gate) return false;
  const auto& own = sandbox.kept.proxy.place;
  return port == policy::kProxyPort || port == policy::kSocksPort ||
         port == policy::kResolverPort || (own && port == own->port);
}

std::vector<std::uint16_t> exposed_ports(const ImageDefaults& defaults) {
  std::vector<std::uint16_t> ports;
  for (const std::string& text : defaults.ports) {
    if (const auto port = tcp_port(text)) ports.push_back(*port);
  }
  std::ranges::sort(ports);
  ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
  return ports;
}

}  // namespace

bool is_public(const SandboxView& view) {
  const auto label = view.labels.find(std::string(kPublicLabel));
  return label != view.labels.end() && label->second == "true";
}

std::optional<std::uint16_t> likely_port(const PortsView& ports) {
  if (!ports.exposed.empty()) {
    for (const std::uint16_t port : ports.exposed) {
      if (std::ranges::binary_search(ports.listening, port)) return port;
    }
    return ports.exposed.front();
  }
  for (const std::uint16_t port : std::array<std::uint16_t, 5>{80, 8000, 8080, 3000, 4000}) {
    if (std::ranges::binary_search(ports.listening, port)) return port;
  }
  if (ports.listening.empty()) return std::nullopt;
  return ports.listening.front();
}

awaitable<Result<UniqueFd>> FleetImpl::connect_inside(std::string id, int family,
                                                      std::uint16_t port) {
  namespace ip = boost::asio::ip;
  auto made = co_await launcher_->socket_inside(id, family);
  if (!made) co_return std::unexpected(made.error());
  const bool v4 = family == AF_INET;
  ip::tcp::socket socket(executor_);
  boost::system::error_code failed;
  (void)socket.assign(v4 ? ip::tcp::v4() : ip::tcp::v6(), made->get(), failed);
  if (failed) co_return failure(Errc::Internal, "connect inside: " + failed.message());
  (void)made->release();
  const ip::address there =
      v4 ? ip::address(ip::address_v4::loopback()) : ip::address(ip::address_v6::loopback());
  using namespace boost::asio::experimental::awaitable_operators;
  boost::asio::steady_timer timer(executor_, kPortConnectTimeout);
  boost::system::error_code stopped;
  // Both are over when this returns, so neither can touch the socket or the timer afterwards.
  const auto first = co_await (
      socket.async_connect(ip::tcp::endpoint(there, port),
                           boost::asio::redirect_error(boost::asio::use_awaitable, failed)) ||
      timer.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, stopped)));
  if (first.index() == 1)
    co_return failure(Errc::TimedOut, "nobody accepted the connection in time");
  if (failed) co_return failure(Errc::NotFound, failed.message());
  UniqueFd out(socket.release(failed));
  if (failed) co_return failure(Errc::Internal, "connect inside: " + failed.message());
  co_return out;
}

// Busy, when it is paused; Protocol, when nobody listens. Whoever may look at a sandbox may not go
// out through it.
awaitable<Result<PortSocket>> FleetImpl::connect_to(SandboxPtr sandbox, std::uint16_t port) {
  if (port == 0) co_return bad_field("port", "port is 0: want 1 to 65535");
  if (is_way_out(*sandbox, port)) {
    co_return bad_field("port", "port " + std::to_string(port) +
                                    " is the sandbox's own way out: name one of a program inside");
  }
  auto use = std::make_shared<const Use>(sandbox);
  if (const auto up = co_await woken(sandbox); !up) co_return std::unexpected(up.error());
  auto result = co_await connect_inside(sandbox->id, AF_INET, port);
  if (!result && result.error().code == Errc::NotFound)
    result = co_await connect_inside(sandbox->id, AF_INET6, port);
  if (!result && result.error().code == Errc::NotFound) {
    result = std::unexpected(
        Error{Errc::Protocol, "port: nothing listens on port " + std::to_string(port) + " inside",
              0, "port"});
  }
  if (!result) co_return std::unexpected(explain(*sandbox, result.error()));
  co_return PortSocket{*std::move(result), std::move(use)};
}

awaitable<Result<PortSocket>> FleetImpl::connect_port(const Caller& caller, std::string id,
                                                      std::uint16_t port) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, row(caller, "port.connect", sandbox->id, std::to_string(port)));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  auto result = co_await connect_to(sandbox.ptr(), port);
  co_return co_await settle(audit, std::move(result));
}

awaitable<Result<PortSocket>> FleetImpl::connect_again(const Caller& caller, std::string id,
                                                       std::uint16_t port) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  co_return co_await connect_to(*found, port);
}

awaitable<Result<PortsView>> FleetImpl::ports(const Caller& caller, std::string id) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  auto listening = co_await sandbox->guest->ports(sandbox->user());
  if (!listening) co_return std::unexpected(explain(*sandbox, listening.error()));
  std::erase_if(*listening, [&](std::uint16_t port) { return is_way_out(*sandbox, port); });
  co_return PortsView{exposed_ports(sandbox->kept.defaults), *std::move(listening)};
}

// The kernel tells nobody when a socket begins to listen, so this looks, and ever less often.
awaitable<Result<void>> FleetImpl::wait_for_port(const Caller& caller, std::string id,
                                                 std::uint16_t port, milliseconds timeout) {
  const TimePoint end = Clock::now() + std::min(timeout, kPortWaitMax);
  milliseconds pause = kPortLookMin;
  for (;;) {
    auto found = co_await running(caller, id);
    if (!found) co_return std::unexpected(found.error());
    {
      const Use sandbox(*found);
      auto listening = co_await sandbox->guest->ports(sandbox->user());
      if (!listening) co_return std::unexpected(explain(*sandbox, listening.error()));
      if (std::ranges::binary_search(*listening, port)) co_return Result<void>();
    }
    if (Clock::now() + pause > end)
      co_return failure(Errc::TimedOut, "nobody listens on port " + std::to_string(port));
    boost::asio::steady_timer timer(executor_, pause);
    boost::system::error_code stopped;
    co_await timer.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, stopped));
    if (stopped) co_return failure(Errc::Gone, "the server ends");
    pause = std::min(pause * 2, kPortLookMax);
  }
}

}  // namespace caisson::control
