#include <boost/asio/this_coro.hpp>

#include "doors/preview/name.h"
#include "doors/preview/state.h"
#include "doors/proxy/proxy.h"

namespace caisson::preview {
namespace {

constexpr unsigned kPausedRetrySeconds = 5;

bool is_own_path(std::string_view path) {
  return path.starts_with(kOwnPath) || path == kOwnPath.substr(0, kOwnPath.size() - 1);
}

// Strangers have places of their own: they take none from whose sandbox it is.
Places::Who place_of(const Name& name, const Visitor& visitor) {
  const std::string kind = visitor.caller.actor == kPublicActor ? "public " : "";
  return {kind + name.sandbox, kind + visitor.caller.tenant};
}

Result<void> is_up(const control::SandboxView& sandbox) {
  switch (sandbox.state) {
    case control::State::Running:
    case control::State::Hibernated:  // a visit wakes it
      return {};
    case control::State::Creating:
    case control::State::Paused:
      return failure(Errc::Busy, "this sandbox is paused or just starting: try again later");
    case control::State::Stopped:
    case control::State::Ended:
      break;
  }
  return failure(Errc::NotFound, "this sandbox does not run");
}

// The address as the program knows it. Configurations of Caddy for the old system put the path of
// its proxy before it, also before our own paths.
std::string target_inside(const http::Request& request, const Name& name) {
  std::string target = target_of(request);
  const std::string before = "/sandboxes/" + name.sandbox + "/proxy";
  if (target.starts_with(before + "/")) target.erase(0, before.size());
  return target;
}

// What a visitor can do about it. Nobody knows yet that he speaks of us, so it names no sandbox.
Refusal explain(const Error& error, const http::Request& request) {
  Refusal out = refusal_of(error, request.id);
  if (error.code == Errc::Busy) out.retry_seconds = kPausedRetrySeconds;
  out.reloads = error.code == Errc::Protocol && is_navigation(request);
  return out;
}

}  // namespace

Door::Door(control::Fleet& fleet, control::Access& access, control::Logins& logins,
           PreviewOptions options)
    : state_(std::make_unique<State>(fleet, access, logins, std::move(options))) {}

Door::~Door() = default;

bool Door::answers(const http::Request& request) const {
  return parse_name(request.field("Host"), state_->options.vhost).has_value();
}

bool Door::knows(std::string_view domain) const {
  const std::string& vhost = state_->options.vhost;
  if (vhost.empty() || domain.find(':') != std::string_view::npos) return false;
  if (domain == vhost) return true;
  const auto name = parse_name(domain, vhost);
  if (!name) return false;
  const auto sandbox = state_->look_up(name->sandbox);
  return sandbox && sandbox->state != control::State::Ended;
}

std::optional<control::SandboxView> Door::State::look_up(const std::string& sandbox) const {
  auto found = fleet.look_up(sandbox);
  if (!found) return std::nullopt;
  return std::move(*found);
}

awaitable<Result<void>> Door::State::visit(http::Exchange& exchange, const Name& name,
                                           const Visitor& visitor, std::string target) {
  const http::Request& request = exchange.request();
  if (request.wants_websocket && !is_own_origin(request)) {
    co_return failure(Errc::Denied, "Origin is another web page: it may not open a WebSocket here");
  }
  // From before the first wait: a token that is withdrawn takes the visit with it.
  std::shared_ptr<void> watched;
  if (visitor.by_token) {
    auto cut = [&exchange] { exchange.cut(); };
    watched = access.watch(visitor.caller, co_await boost::asio::this_coro::executor, cut);
  }
  const auto place = places.take(place_of(name, visitor));
  if (!place) {
    co_return failure(Errc::Exhausted, "too many requests into this sandbox are under way");
  }
  auto reached = co_await reach(visitor.caller, name);
  if (!reached) co_return std::unexpected(reached.error());
  proxy::Passage passage;
  passage.port = reached->port;
  passage.raw_tail = target;
  passage.place = proxy::Place::OwnHost;
  passage.host = request.field("Host");
  passage.scheme = options.scheme;
  passage.own_cookies = {std::string(kSecureCookie), std::string(kPlainCookie)};
  passage.own_authorization = is_own_authorization(request, access);
  co_return co_await proxy::pass(exchange, std::move(reached->inside.socket), std::move(passage));
}

awaitable<Result<void>> Door::State::serve(http::Exchange& exchange, const Name& name,
                                           Visitor& visitor) {
  const http::Request& request = exchange.request();
  std::string target = target_inside(request, name);
  const std::string path = target.substr(0, target.find('?'));
  if (is_own_path(path)) co_return co_await serve_own(exchange, name, path);
  const Asked asked{request, make_host(name, options.vhost), cookie_name(), look_up(name.sandbox)};
  auto admitted = admit(asked, access, logins);
  if (!admitted) {
    if (admitted.error().code == Errc::Unauthenticated && is_navigation(request)) {
      co_await answer_redirect(exchange, 302, login_address(name, target));
      co_return Result<void>{};
    }
    co_return std::unexpected(admitted.error());
  }
  visitor = std::move(*admitted);
  if (auto up = is_up(*asked.sandbox); !up) co_return up;
  co_return co_await visit(exchange, name, visitor, std::move(target));
}

awaitable<void> Door::handle(http::Exchange& exchange) {
  const TimePoint begun = Clock::now();
  const http::Request& request = exchange.request();
  const auto name = parse_name(request.field("Host"), state_->options.vhost);
  Visitor visitor;
  Result<void> done = failure(Errc::NotFound, "there is no such page");
  if (name) done = co_await state_->serve(exchange, *name, visitor);
  if (!done) {
    if (done.error().code == Errc::Internal && state_->options.on_failure) {
      state_->options.on_failure(request.id, done.error());
    }
    if (exchange.begun()) {
      exchange.close_after();  // half an answer: only a cut tells that it is not whole
    } else {
      co_await answer_refusal(exchange, explain(done.error(), request));
    }
  }
  if (!state_->options.on_request) co_return;
  state_->options.on_request(doors::request_line(exchange, visitor.caller, begun));
}

}  // namespace caisson::preview
