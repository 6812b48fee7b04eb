#include <fmt/format.h>

#include <boost/asio/this_coro.hpp>

#include "doors/sandboxer/call.h"
#include "doors/sandboxer/life.h"
#include "doors/shared/local.h"
#include "doors/shared/text.h"

namespace caisson::sandboxer {

namespace {

constexpr std::string_view kProxyPart = "/proxy/";
constexpr std::string_view kAuthenticate = "Authentication required";

bool is_below(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

// Who is asked for.
Result<void> admit_host(Call& call) {
  const http::Request& request = call.request();
  const std::string_view host = request.field("Host");
  if (!call.options().hosts.allows_host(host))
    return refuse(call, 421,
                  fmt::format("Host is \"{}\", which is no name of this server",
                              doors::lossy_utf8(host.substr(0, 128))));
  if (call.options().open && !request.peer.local)
    return refuse(call, 403, "This server is open to its own machine only");
  return {};
}

// And from which page: those of others may not call this server, whatever they know.
Result<void> admit_origin(Call& call) {
  const http::Request& request = call.request();
  if (request.count("Origin") == 0) return {};
  if (request.count("Origin") == 1 &&
      call.options().hosts.allows_origin(request.field("Origin"), request.field("Host")))
    return {};
  return refuse(call, 403, "Other web pages may not call this server");
}

// A public sandbox, by its name: its owner has opened it to everybody.
RowPtr public_row(Call& call) {
  const std::string_view path = call.request().path;
  constexpr std::string_view kPrefix = "/sandboxes/";
  if (!path.starts_with(kPrefix)) return nullptr;
  const std::string_view rest = path.substr(kPrefix.size());
  const std::size_t end = rest.find('/');
  if (end == std::string_view::npos || !rest.substr(end).starts_with(kProxyPart)) return nullptr;
  const RowPtr row = call.services().rows.by_name(rest.substr(0, end));
  return row && row->living() && !row->ending && call.services().is_public(*row) ? row : nullptr;
}

Result<void> identify(Call& call) {
  auto who = doors::identify(call.request(), call.services().access, call.services().logins);
  if (who && who->caller.actor == "open" && !doors::is_local(call.request()))
    who = failure(Errc::Unauthenticated, "an open server asks its own machine only");
  if (who) {
    call.caller = std::move(who->caller);
    call.login = std::move(who->login);
    return {};
  }
  switch (who.error().code) {
    case Errc::Exhausted:
      call.exchange.set("Retry-After", "60");
      return refuse(call, 429, "Too many failed logins: try again later");
    case Errc::Unauthenticated:
      call.exchange.set("WWW-Authenticate", "Bearer");
      return refuse(call, 401, kAuthenticate);
    default:
      return std::unexpected(who.error());
  }
}

Result<void> find(Call& call) {
  const http::Request& request = call.request();
  call.match = find_route(request.method, request.path, request.wants_websocket);
  switch (call.match.kind) {
    case Match::Kind::Found:
      return {};
    case Match::Kind::NotFound:
      return refuse(call, request.wants_websocket ? 403 : 404, "Not Found");
    case Match::Kind::OtherMethod:
      call.exchange.set("Allow", call.match.allow);
      return refuse(call, 405, "Method Not Allowed");
    case Match::Kind::OtherSlash:
      break;
  }
  std::string path = request.path;
  if (path.ends_with('/')) {
    while (path.ends_with('/')) path.pop_back();
  } else {
    path += '/';
  }
  call.exchange.set(
      "Location",
      fmt::format("{}://{}{}{}{}", doors::is_secure(request) ? "https" : "http",
                  request.field("Host"), path, request.query.empty() ? "" : "?", request.query));
  call.refusal = Call::Refusal{307, {}};
  return failure(Errc::InvalidArgument, "the other slash");
}

Result<void> may(Call& call) {
  const Route& route = *call.match.route;
  if (route.who != Who::Known || call.caller.may(route.need)) return {};
  call.services().access.denied(
      call.caller, fmt::format("{} {}", call.request().method_text.substr(0, 16), route.pattern));
  return refuse(
      call, 403,
      fmt::format("This needs a token with the scope \"{}\"", doors::scope_word(route.need)));
}

awaitable<Result<void>> serve(Call& call) {
  if (auto good = admit_host(call); !good) co_return good;
  if (call.services().closed) {
    call.exchange.set("Retry-After", "5");
    co_return refuse(call, 503, "The service is being stopped");
  }
  if (public_row(call)) {
    if (auto good = find(call); !good) co_return good;
    co_return co_await call.match.route->handler(call);
  }
  if (auto good = admit_origin(call); !good) co_return good;
  if (is_protected(call.request().path)) {
    if (auto good = identify(call); !good) co_return good;
  }
  if (auto good = find(call); !good) co_return good;
  const Route& route = *call.match.route;
  if (route.who != Who::Viewer) call.exchange.set("Cache-Control", "no-store");
  // A cookie is shown again with each answer, so that it lives as long as it is used.
  if (!call.login.empty() && route.who == Who::Known)
    call.exchange.set("Set-Cookie",
                      doors::login_cookie(call.request(), call.login, call.options().cookie_life));
  if (auto good = may(call); !good) co_return good;
  if (route.who != Who::Viewer) {
    auto query = http::parse_query(call.request().query);
    if (!query) co_return refuse(call, 400, "The query is malformed");
    call.query = *std::move(query);
  }
  // From before the first wait: a body that drips for hours must not outlive its token.
  std::shared_ptr<void> watched;
  if (route.who != Who::Anybody) {
    auto cut = [&call] { call.exchange.cut(); };
    watched = call.services().access.watch(call.caller, call.services().executor, cut);
  }
  if (route.json) {
    if (auto read = co_await read_body(call); !read) co_return read;
  }
  co_return co_await route.handler(call);
}

awaitable<void> refuse_with(Call& call, const Error& error) {
  if (call.exchange.begun()) {
    call.exchange.close_after();  // half an answer: only a cut tells that it is not whole
    co_return;
  }
  Call::Refusal refusal = call.refusal ? *call.refusal : refusal_of(error);
  if (refusal.status == 500 && refusal.body.empty()) {
    call.services().failed(call.request().id, error);
    co_await call.exchange.respond(500, "text/plain; charset=utf-8", "Internal Server Error");
    co_return;
  }
  const std::string_view type = refusal.body.empty() ? std::string_view() : kJsonType;
  co_await call.exchange.respond(refusal.status, type, std::move(refusal.body));
}

void record(const Call& call, TimePoint begun) {
  if (!call.options().on_request) return;
  call.options().on_request(doors::request_line(call.exchange, call.caller, begun));
}

}  // namespace

struct Door::State {
  ServicesPtr services;
};

Door::Door(boost::asio::any_io_executor executor, control::Fleet& fleet, control::Access& access,
           control::Logins& logins, control::People& people, control::History& history,
           SandboxerOptions options)
    : state_(std::make_shared<State>(State{std::make_shared<Services>(
          std::move(executor), fleet, access, logins, people, history, std::move(options))})) {}

Door::~Door() { close(); }

void Door::close() noexcept {
  Services& services = *state_->services;
  if (std::exchange(services.closed, true)) return;
  services.hub.close();
  services.closing.wake();
  services.ledger->hurry();
  for (const RowPtr& row : services.rows.all()) leave_main(*row);
}

bool Door::answers(const http::Request& request) const {
  const std::string_view path = request.path;
  return is_below(path, "/sandboxes") || is_below(path, "/volumes") || is_below(path, "/events") ||
         is_below(path, "/auth");
}

Counts Door::counts() const {
  Counts out;
  const Services& services = *state_->services;
  out.rows = services.rows.size();
  for (const RowPtr& row : services.rows.all()) out.living += row->living() ? 1 : 0;
  out.streams = services.streams.open();
  return out;
}

awaitable<Result<void>> Door::open() { co_return co_await take_up_rows(state_->services); }

awaitable<Result<ImportCount>> Door::import(const control::Caller& caller, ImportWish wish) {
  co_return co_await import_rows(state_->services, caller, std::move(wish));
}

awaitable<void> Door::handle(http::Exchange& exchange) {
  const TimePoint begun = Clock::now();
  Call call{exchange, state_->services};
  exchange.set("X-Content-Type-Options", "nosniff");
  Result<void> outcome;
  try {
    outcome = co_await serve(call);
  } catch (const std::exception& bug) {  // the one place: a bug ends its request, not the server
    outcome = failure(Errc::Internal, std::string("exception: ") + bug.what());
  }
  if (!outcome) co_await refuse_with(call, outcome.error());
  record(call, begun);
}

}  // namespace caisson::sandboxer
