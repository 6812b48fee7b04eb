// grpc.health.v1: whether a sandbox could be made now.
#include <grpc/health/v1/health.pb.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "doors/grpc/methods.h"

namespace caisson::grpc {

namespace health = ::grpc::health::v1;
namespace asio = boost::asio;

namespace {

constexpr seconds kLook{1};  // between looks, for those who watch

// A place among those who watch.
class Watcher {
 public:
  explicit Watcher(Call& call) : watchers_(call.services().watchers) {
    std::size_t all = 0;
    for (const auto& [peer, count] : watchers_) all += count;
    const std::string& peer = call.request().peer.address;
    const auto at = watchers_.find(peer);
    if (all >= kWatchersMax || (at != watchers_.end() && at->second >= kWatchersPerPeerMax)) return;
    peer_ = peer;
    ++watchers_[*peer_];
  }
  ~Watcher() {
    if (peer_ && --watchers_[*peer_] == 0) watchers_.erase(*peer_);
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  [[nodiscard]] explicit operator bool() const noexcept { return peer_.has_value(); }

 private:
  decltype(Services::watchers)& watchers_;
  std::optional<std::string> peer_;
};

bool is_known(std::string_view service) {
  return service.empty() || service == "sandbox.v1.SandboxService";
}

health::HealthCheckResponse::ServingStatus state_of(const Call& call, std::string_view service) {
  if (!is_known(service)) return health::HealthCheckResponse::SERVICE_UNKNOWN;
  return call.fleet().ready() && !call.services().closed ? health::HealthCheckResponse::SERVING
                                                         : health::HealthCheckResponse::NOT_SERVING;
}

}  // namespace

awaitable<Status> check_health(Call& call) {
  health::HealthCheckRequest request;
  if (Status wrong = call.parse(request); !wrong.ok()) co_return wrong;
  if (!is_known(request.service())) co_return Status{Code::NotFound, "unknown service"};
  health::HealthCheckResponse reply;
  reply.set_status(state_of(call, request.service()));
  call.reply(reply);
  co_return Status{};
}

awaitable<Status> watch_health(Call& call) {
  health::HealthCheckRequest request;
  if (Status wrong = call.parse(request); !wrong.ok()) co_return wrong;
  const Watcher place(call);
  if (!place) co_return Status{Code::ResourceExhausted, "too many watch already; use Check"};
  asio::steady_timer timer(co_await asio::this_coro::executor);
  auto told = health::HealthCheckResponse::UNKNOWN;
  for (;;) {
    const auto now = state_of(call, request.service());
    if (now != told) {
      health::HealthCheckResponse reply;
      reply.set_status(now);
      if (!co_await call.write(reply)) co_return Status{Code::Cancelled, "the caller has left"};
      told = now;
    }
    if (call.services().closed) co_return Status{Code::Unavailable, "the server is being stopped"};
    timer.expires_after(kLook);
    boost::system::error_code ec;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    if (ec) co_return Status{Code::Cancelled, "the caller has left"};
  }
}

}  // namespace caisson::grpc
