#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "doors/grpc/methods.h"
#include "doors/shared/local.h"

namespace caisson::grpc {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kLogPathBytesMax = 256;
constexpr std::size_t kCredentialBytesMax = 512;
constexpr std::string_view kPreflightMaxAge = "7200";

std::string_view credential_of(const http::Request& request) {
  constexpr std::string_view kBearer = "bearer ";
  std::string_view shown = request.field("authorization");
  if (shown.empty()) return request.field("x-api-key");
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  if (shown.size() > kBearer.size() &&
      std::ranges::equal(shown.substr(0, kBearer.size()), kBearer, same))
    shown.remove_prefix(kBearer.size());
  return shown;
}

struct Series {
  std::uint64_t count = 0;
  double seconds = 0;
};

awaitable<void> wait_until(TimePoint when) {
  asio::steady_timer timer(co_await asio::this_coro::executor, when);
  boost::system::error_code ec;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ec));
}

control::Caller sweeper_of(std::string tenant) {
  control::Caller caller;
  caller.tenant = std::move(tenant);
  caller.actor = "agentbox-sweeper";
  caller.scopes = static_cast<std::uint8_t>(store::Scope::Admin);
  return caller;
}

}  // namespace

std::string error_body(unsigned /*status*/, const Error& error, std::string_view /*id*/) {
  return error.message + "\n";
}

struct Door::State {
  State(control::Fleet& fleet, control::Access& access, GrpcOptions wanted)
      : options(std::move(wanted)),
        budget(options.held_bytes_max, options.held_per_tenant_max, options.held_patience),
        services{fleet, access, options, budget} {}

  [[nodiscard]] bool allows_origin(const http::Request& request) const;
  [[nodiscard]] Status identify(Call& call, const Method& method);
  awaitable<void> answer_plain(http::Exchange& exchange, unsigned status, std::string text);
  awaitable<void> answer_preflight(http::Exchange& exchange);
  awaitable<Status> serve(Call& call, const Method* method);
  awaitable<Status> run(Call& call, const Method& method);
  awaitable<Status> run_guarded(Call& call, const Method& method);
  Status bug_status(const Call& call, const std::string& what) const;
  void record(Call& call, const Method* method, const Status& status, TimePoint begun);

  GrpcOptions options;
  doors::Budget budget;
  Services services;
  std::map<std::pair<std::string_view, Code>, Series> counted;
  bool sweeping = false;
};

Door::Door(control::Fleet& fleet, control::Access& access, GrpcOptions options)
    : state_(std::make_unique<State>(fleet, access, std::move(options))) {}

Door::~Door() = default;

void Door::close() noexcept { state_->services.closed = true; }

// Pages of the world may not call with a browser's help, except those that were named.
bool Door::State::allows_origin(const http::Request& request) const {
  const std::string_view origin = request.field("origin");
  if (request.count("origin") == 0) return true;
  return std::ranges::find(options.web_origins, origin) != options.web_origins.end();
}

Status Door::State::identify(Call& call, const Method& method) {
  const http::Request& request = call.request();
  call.caller.peer = request.peer.address;
  call.caller.request_id = request.id;
  if (options.open) {
    // An open server lets anybody of this machine in, and nobody else.
    if (!doors::is_local(request))
      return {Code::PermissionDenied, "an open server answers this machine only"};
  }
  if (method.open) return {};
  const std::string_view shown = credential_of(request);
  if (shown.size() > kCredentialBytesMax) return {Code::Unauthenticated, "that is no token"};
  auto known = services.access.authenticate(shown, request.peer.address);
  if (!known) return status_of(known.error());
  call.caller = *std::move(known);
  call.caller.peer = request.peer.address;
  call.caller.request_id = request.id;
  if (call.caller.may(method.need)) return {};
  services.access.denied(call.caller, method.path);
  return {Code::PermissionDenied, "the token has not the scope that this method needs"};
}

Status Door::State::bug_status(const Call& call, const std::string& what) const {
  if (options.on_failure) options.on_failure(call.request().id, Error{Errc::Internal, what, 0, {}});
  return {Code::Unknown, "Exception calling application: see the server's log"};
}

// Of those that are awaited together, one that throws does not end the others: a bug must be an
// answer before it gets there.
awaitable<Status> Door::State::run_guarded(Call& call, const Method& method) {
  std::string bug;
  try {
    co_return co_await method.run(call);
  } catch (const std::exception& thrown) {
    bug = thrown.what();
  }
  const auto cancelled = (co_await asio::this_coro::cancellation_state).cancelled();
  if (cancelled != asio::cancellation_type::none)
    co_return Status{Code::Cancelled, "the caller has left"};
  co_return bug_status(call, bug);
}

awaitable<Status> Door::State::run(Call& call, const Method& method) {
  using namespace asio::experimental::awaitable_operators;
  if (method.request_bytes_max > 0)
    call.request_bytes_max = std::min(call.request_bytes_max, method.request_bytes_max);
  if (!method.streams_in) {
    if (Status wrong = co_await call.read_only(); !wrong.ok()) co_return wrong;
  }
  TimePoint deadline = TimePoint::max();
  if (const std::string_view said = call.request().field("grpc-timeout"); !said.empty()) {
    const auto micros = timeout_microseconds(said);
    if (!micros) co_return Status{Code::Internal, "grpc-timeout: want digits and a unit"};
    deadline = Clock::now() + microseconds(*micros);
  }
  if (!method.cancellable) co_return co_await method.run(call);
  auto first = co_await (run_guarded(call, method) || call.exchange().wait_for_hangup() ||
                         wait_until(deadline));
  if (first.index() == 0) co_return std::get<0>(std::move(first));
  if (first.index() == 1) co_return Status{Code::Cancelled, "the caller has left"};
  co_return Status{Code::DeadlineExceeded, "Deadline Exceeded"};
}

awaitable<Status> Door::State::serve(Call& call, const Method* method) {
  if (services.closed) co_return Status{Code::Unavailable, "the server is being stopped"};
  if (method == nullptr) co_return Status{Code::Unimplemented, "Method not found!"};
  if (Status wrong = identify(call, *method); !wrong.ok()) co_return wrong;
  auto cut = [&call] { call.exchange().cut(); };
  const auto watched = services.access.watch(call.caller, co_await asio::this_coro::executor, cut);
  co_return co_await run(call, *method);
}

awaitable<void> Door::State::answer_plain(http::Exchange& exchange, unsigned status,
                                          std::string text) {
  co_await exchange.respond(status, "text/plain; charset=utf-8", std::move(text));
}

awaitable<void> Door::State::answer_preflight(http::Exchange& exchange) {
  exchange.set("Access-Control-Allow-Methods", "POST");
  exchange.set("Access-Control-Allow-Headers",
               "content-type, x-grpc-web, x-user-agent, grpc-timeout, authorization, x-api-key");
  exchange.set("Access-Control-Max-Age", kPreflightMaxAge);
  co_await exchange.respond(204, "", "");
}

namespace {

// The kinds of bodies that we know, each answered in its own kind.
std::optional<Dialect> dialect_of(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  if (type == "application/grpc" || type == "application/grpc+proto") return Dialect::Native;
  if (type == "application/grpc-web" || type == "application/grpc-web+proto") return Dialect::Web;
  return std::nullopt;
}

}  // namespace

awaitable<void> Door::handle(http::Exchange& exchange) {
  const TimePoint begun = Clock::now();
  State& state = *state_;
  const http::Request& request = exchange.request();
  if (!state.allows_origin(request)) {
    co_await state.answer_plain(exchange, 403, "pages of this origin may not call\n");
    co_return;
  }
  if (request.count("origin") != 0) {
    exchange.set("Access-Control-Allow-Origin", request.field("origin"));
    exchange.set("Access-Control-Expose-Headers", "grpc-status, grpc-message");
    exchange.set("Vary", "Origin");
    if (request.method == http::Method::Options) {
      co_await state.answer_preflight(exchange);
      co_return;
    }
  }
  const auto dialect = dialect_of(request.field("content-type"));
  if (request.method != http::Method::Post || !dialect ||
      (*dialect == Dialect::Native && !exchange.http2())) {
    const bool post = request.method == http::Method::Post;
    co_await state.answer_plain(
        exchange, post ? 415 : 405,
        "this port speaks gRPC over HTTP/2 and gRPC-Web: POST with application/grpc or "
        "application/grpc-web+proto\n");
    co_return;
  }
  Call call(exchange, state.services);
  call.dialect = *dialect;
  call.content_type = request.field("content-type");
  const Method* method = find_method(request.path);
  Status status;
  try {
    status = co_await state.serve(call, method);
  } catch (const std::exception& bug) {  // the one place: a bug ends its call, not the server
    status = state.bug_status(call, bug.what());
  }
  co_await call.finish(status);
  state.record(call, method, status, begun);
}

void Door::State::record(Call& call, const Method* method, const Status& status, TimePoint begun) {
  const auto took = Clock::now() - begun;
  Series& series = counted[{method == nullptr ? "unknown" : method->path, status.code}];
  ++series.count;
  series.seconds += std::chrono::duration<double>(took).count();
  if (!options.on_request) return;
  const http::Request& request = call.request();
  options.on_request({.request_id = request.id,
                      .path = std::string_view(request.path).substr(0, kLogPathBytesMax),
                      .code = to_string(status.code),
                      .status = call.exchange().status(),
                      .took = duration_cast<microseconds>(took),
                      .peer = request.peer.address,
                      .actor = call.caller.actor,
                      .tenant = call.caller.tenant});
}

std::string Door::metrics() const {
  std::string count = "# TYPE caisson_grpc_requests_total counter\n";
  std::string took = "# TYPE caisson_grpc_request_seconds_total counter\n";
  for (const auto& [key, series] : state_->counted) {
    const std::string_view name = key.first.substr(key.first.rfind('/') + 1);
    const std::string labels =
        fmt::format("{{method=\"{}\",code=\"{}\"}}", name, to_string(key.second));
    count += fmt::format("caisson_grpc_requests_total{} {}\n", labels, series.count);
    took += fmt::format("caisson_grpc_request_seconds_total{} {:.6f}\n", labels, series.seconds);
  }
  return count + took +
         fmt::format("# TYPE caisson_grpc_sessions gauge\ncaisson_grpc_sessions {}\n",
                     state_->services.sessions.all().size());
}

awaitable<void> Door::sweep() {
  State& state = *state_;
  if (state.services.closed || state.sweeping) co_return;
  state.sweeping = true;
  try {
    // Those first whose ends have failed before, whatever their age.
    for (const SessionPtr& session : state.services.sessions.condemned())
      (void)co_await end_session(state.services, sweeper_of(session->owner), session);
    for (const SessionPtr& session : state.services.sessions.all()) {
      const bool idle = session->running == 0 &&
                        state.options.now() - session->used_at > state.options.session_timeout;
      if (idle) (void)co_await end_session(state.services, sweeper_of(session->owner), session);
    }
  } catch (const std::exception& bug) {
    if (state.options.on_failure)
      state.options.on_failure("agentbox", Error{Errc::Internal, bug.what(), 0, {}});
  }
  state.sweeping = false;
}

awaitable<void> Door::remove_left_over() {
  Services& services = state_->services;
  std::vector<std::string> tenants{"default"};
  for (const store::TokenRecord& token : services.access.list(sweeper_of("default"))) {
    if (std::ranges::find(tenants, token.tenant) == tenants.end()) tenants.push_back(token.tenant);
  }
  for (const std::string& tenant : tenants) {
    const control::Caller caller = sweeper_of(tenant);
    for (const control::SandboxView& one : services.fleet.list(caller)) {
      if (!one.labels.contains(std::string(kSessionLabel))) continue;
      const auto done = co_await services.fleet.destroy(caller, one.id);
      if (done || done.error().code == Errc::NotFound) continue;
      if (services.options.on_failure) services.options.on_failure("agentbox", done.error());
      services.sessions.adopt(tenant, one.labels.at(std::string(kSessionLabel)), one.id);
    }
  }
}

}  // namespace caisson::grpc
