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

bool is_known(std::string_view service) {
  return service.empty() || service == "sandbox.v1.SandboxService";
}

health::HealthCheckResponse::ServingStatus state_of(const Call& call, std::string_view service) {
  if (!is_known(service)) return health::HealthCheckResponse::SERVICE_UNKNOWN;
  return call.fleet().ready() ? health::HealthCheckResponse::SERVING
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
    timer.expires_after(kLook);
    boost::system::error_code ec;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    if (ec) co_return Status{Code::Cancelled, "the caller has left"};
  }
}

}  // namespace caisson::grpc
