#include <fmt/format.h>

#include <boost/asio/this_coro.hpp>

#include "doors/daiv/call.h"
#include "doors/daiv/json_text.h"
#include "doors/daiv/reaper.h"
#include "doors/shared/local.h"
#include "store/digest.h"

namespace caisson::daiv {

namespace json = boost::json;

namespace {

constexpr std::string_view kNoKey = "API Key header is missing";
constexpr std::string_view kWrongKey = "Invalid API Key";

bool is_own(std::string_view path) {
  constexpr std::string_view kSession = "/session";
  if (path.starts_with(kSession))
    return path.size() == kSession.size() || path[kSession.size()] == '/';
  return path == "/-/health/" || path == "/-/health" || path == "/-/version/" ||
         path == "/-/version";
}

// What stands behind the prefix, where there is one.
std::string_view without_prefix(std::string_view path, std::string_view prefix) {
  if (prefix.empty() || !path.starts_with(prefix)) return path;
  const std::string_view rest = path.substr(prefix.size());
  return is_own(rest) ? rest : path;
}

}  // namespace

struct Door::State {
  State(control::Fleet& fleet, control::Access& access, DaivOptions wanted)
      : options(std::move(wanted)),
        key(store::sha256(options.api_key)),
        budget(options.held_bytes_max, options.held_per_tenant_max, options.held_patience),
        services{fleet, access, options, budget} {
    while (options.prefix.ends_with('/')) options.prefix.pop_back();
  }

  awaitable<Result<void>> serve(Call& call);
  Result<void> find(Call& call);
  Result<control::Caller> identify(const http::Request& request, std::string_view& why);
  awaitable<void> refuse_with(Call& call, const Error& error);
  void record(const Call& call, TimePoint begun);

  DaivOptions options;
  store::Digest key;
  doors::Budget budget;
  Services services;
  bool closed = false;
  bool sweeping = false;
};

Door::Door(control::Fleet& fleet, control::Access& access, DaivOptions options)
    : state_(std::make_unique<State>(fleet, access, std::move(options))) {}

Door::~Door() = default;

void Door::close() noexcept { state_->closed = true; }

bool Door::answers(std::string_view path) const {
  return is_own(without_prefix(path, state_->options.prefix));
}

Result<void> Door::State::find(Call& call) {
  const http::Request& request = call.request();
  call.match = find_route(request.method, without_prefix(request.path, options.prefix));
  switch (call.match.kind) {
    case Match::Kind::Found:
      return {};
    case Match::Kind::NotFound:
      return refuse(call, 404, "Not Found");
    case Match::Kind::OtherMethod:
      call.exchange.set("Allow", http::to_string(call.match.route->method));
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
  call.exchange.set("Location", fmt::format("http://{}{}{}{}", request.field("Host"), path,
                                            request.query.empty() ? "" : "?", request.query));
  call.refusal = Call::Refusal{307, {}};
  return failure(Errc::InvalidArgument, "the other slash");
}

// The key of the settings, or a token of the server's own.
Result<control::Caller> Door::State::identify(const http::Request& request, std::string_view& why) {
  why = kWrongKey;
  const std::string_view shown = request.field("X-API-Key");
  if (shown.empty()) {
    why = request.count("X-API-Key") > 1 ? kWrongKey : kNoKey;
    return failure(Errc::Unauthenticated, std::string(why));
  }
  control::Caller caller;
  const bool same = store::equal_in_constant_time(store::sha256(shown), key);
  if (!options.api_key.empty() && same) {
    caller.tenant = options.tenant;
    caller.actor = "daiv";
    caller.scopes = static_cast<std::uint8_t>(store::Scope::Read) |
                    static_cast<std::uint8_t>(store::Scope::Use) |
                    static_cast<std::uint8_t>(store::Scope::Create);
  } else {
    auto known = services.access.authenticate(shown, request.peer.address);
    if (!known) return known;
    caller = *std::move(known);
    // An open server lets anybody of this machine in. Who sets a key means it, though; and a page
    // of the world that reaches us by a name of its own is not of this machine.
    const bool local = doors::is_local(request);
    if (caller.actor == "open" && (!options.api_key.empty() || !local))
      return failure(Errc::Unauthenticated, std::string(kWrongKey));
  }
  caller.peer = request.peer.address;
  caller.request_id = request.id;
  return caller;
}

awaitable<Result<void>> Door::State::serve(Call& call) {
  if (closed) {
    call.exchange.set("Retry-After", "5");
    co_return refuse(call, 503, "The service is being stopped");
  }
  if (auto good = find(call); !good) co_return good;
  const Route& route = *call.match.route;
  if (route.open) co_return co_await route.handler(call);
  std::string_view why;
  auto caller = identify(call.request(), why);
  if (caller) call.caller = *caller;
  // Wrong JSON is told before a wrong key.
  if (route.json) {
    auto body = co_await read_body(call, route.shape, caller ? Known::Yes : Known::No);
    if (!body) co_return std::unexpected(body.error());
    call.body = *std::move(body);
  }
  if (!caller) co_return refuse(call, 403, why);
  if (!call.caller.may(route.need)) {
    services.access.denied(call.caller,
                           fmt::format("{} {}", http::to_string(route.method), route.pattern));
    co_return refuse(
        call, 403,
        fmt::format("This needs a token with the scope \"{}\"", doors::scope_word(route.need)));
  }
  auto cut = [&call] { call.exchange.cut(); };
  const auto watched =
      services.access.watch(call.caller, co_await boost::asio::this_coro::executor, cut);
  co_return co_await route.handler(call);
}

awaitable<void> Door::State::refuse_with(Call& call, const Error& error) {
  if (call.exchange.begun()) {
    call.exchange.close_after();  // half an answer: only a cut tells that it is not whole
    co_return;
  }
  Call::Refusal refusal = call.refusal ? *call.refusal : refusal_of(error);
  if (refusal.status == 500) {
    if (options.on_failure) options.on_failure(call.request().id, error);
    if (refusal.body.empty()) {
      co_await call.exchange.respond(500, "text/plain; charset=utf-8", "Internal Server Error");
      co_return;
    }
  }
  const std::string_view type = refusal.body.empty() ? std::string_view() : kJson;
  co_await call.exchange.respond(refusal.status, type, std::move(refusal.body));
}

void Door::State::record(const Call& call, TimePoint begun) {
  if (!options.on_request) return;
  options.on_request(doors::request_line(call.exchange, call.caller, begun));
}

awaitable<void> Door::handle(http::Exchange& exchange) {
  const TimePoint begun = Clock::now();
  State& state = *state_;
  Call call{exchange, state.services};
  exchange.set("X-Content-Type-Options", "nosniff");
  exchange.set("Cache-Control", "no-store");
  Result<void> outcome;
  try {
    outcome = co_await state.serve(call);
  } catch (const std::exception& bug) {  // the one place: a bug ends its request, not the server
    outcome = failure(Errc::Internal, std::string("exception: ") + bug.what());
  }
  if (!outcome) co_await state.refuse_with(call, outcome.error());
  state.record(call, begun);
}

awaitable<void> Door::sweep() {
  State& state = *state_;
  if (!state.options.reaper || state.closed || state.sweeping) co_return;
  state.sweeping = true;
  try {
    co_await sweep_sessions(state.services);
  } catch (const std::exception& bug) {
    if (state.options.on_failure)
      state.options.on_failure("reaper", Error{Errc::Internal, bug.what(), 0, {}});
  }
  state.sweeping = false;
}

awaitable<Result<void>> show_health(Call& call) {
  // The words are the original's; its clients look at the status.
  if (!call.fleet().ready()) co_return refuse(call, 503, "Docker client is not responding");
  const json::object body{{"status", "ok"}};
  co_return co_await answer(call, body);
}

awaitable<Result<void>> show_version(Call& call) {
  const json::object body{{"version", call.options().version}};
  co_return co_await answer(call, body);
}

}  // namespace caisson::daiv
