#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>

#include "base/id.h"
#include "doors/rest/call.h"
#include "doors/rest/errors.h"
#include "doors/rest/rest.h"
#include "doors/rest/text.h"
#include "doors/shared/identity.h"

namespace caisson::rest {

namespace {

constexpr std::size_t kLogPathBytesMax = 1024;
constexpr std::string_view kSandboxes = "/api/v1/sandboxes/{id}";

std::string allow_list(const std::vector<http::Method>& methods) {
  std::string list;
  for (const auto method : methods) {
    if (!list.empty()) list += ", ";
    list += http::to_string(method);
  }
  return list;
}

bool is_listed(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const auto space = std::min(names.find(' '), names.size());
    if (names.substr(0, space) == name) return true;
    names.remove_prefix(std::min(space + 1, names.size()));
  }
  return false;
}

// Addresses are kept in histories and logs: a token there is a token given away.
Result<void> no_token_in(const std::vector<std::pair<std::string, std::string>>& query) {
  for (const auto& [name, value] : query) {
    if (name == "token" || name == "access_token" || name == "api_key") {
      return bad_field(name, name + " stands in the address, where it would be logged: send " +
                                 "Authorization: Bearer TOKEN, and withdraw this one");
    }
  }
  return {};
}

Result<void> known_query(const Route& route,
                         const std::vector<std::pair<std::string, std::string>>& query) {
  for (std::size_t i = 0; i < query.size(); ++i) {
    const std::string shown = valid_utf8(cut_utf8(query[i].first, 64));
    if (!is_listed(route.query, query[i].first)) {
      return bad_field(shown,
                       "\"" + shown + "\" is not a query parameter here" +
                           (route.query.empty() ? std::string(": there is none")
                                                : "; they are: " + std::string(route.query)));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (query[j].first == query[i].first) return bad_field(shown, shown + " is there twice");
    }
  }
  return {};
}

Result<void> may(const control::Caller& caller, Need need) {
  const auto scope = [need] {
    switch (need) {
      case Need::None:
      case Need::Read:
        return store::Scope::Read;
      case Need::Use:
        return store::Scope::Use;
      case Need::Create:
        return store::Scope::Create;
      case Need::Admin:
        return store::Scope::Admin;
    }
    return store::Scope::Admin;
  }();
  if (need == Need::None || caller.may(scope)) return {};
  return failure(Errc::Denied,
                 fmt::format("this needs a token with the scope \"{}\"", to_string(need)));
}

}  // namespace

struct Door::State {
  State(control::Fleet& fleet, control::Access& access, store::Store& store, Log& log,
        DoorOptions wanted)
      : options(std::move(wanted)),
        router(routes()),
        metrics(routes()),
        streams(options.streams_max, options.streams_per_caller_max),
        budget(options.held_bytes_max, options.held_per_tenant_max, options.held_patience),
        readers(1),
        services{fleet, access, store, log, options, metrics, streams, budget, readers} {}

  awaitable<Result<void>> serve(Call& call);
  awaitable<Result<void>> run(Call& call);
  awaitable<Result<void>> answer_again(Call& call, Reply reply);
  Result<void> admit(Call& call);
  Result<void> find(Call& call);
  Result<void> identify(Call& call);
  Result<control::Caller> who(const http::Request& request);
  Result<void> check_query(Call& call) const;
  awaitable<void> refuse_with(Call& call, const Error& error);
  void record(const Call& call, TimePoint begun);

  DoorOptions options;
  Router router;
  Metrics metrics;
  StreamGate streams;
  Budget budget;
  Replies replies;
  boost::asio::thread_pool readers;
  Services services;
  bool closed = false;
};

Door::Door(control::Fleet& fleet, control::Access& access, store::Store& store, Log& log,
           DoorOptions options)
    : state_(std::make_unique<State>(fleet, access, store, log, std::move(options))) {}

Door::~Door() = default;

void Door::close() noexcept { state_->closed = true; }

// Who is asked for, and from which page.
Result<void> Door::State::admit(Call& call) {
  const http::Request& request = call.request();
  const std::string_view host = request.field("Host");
  if (!options.hosts.allows_host(host)) {
    return refuse(call, 421, "MisdirectedHost",
                  "Host is \"" + std::string(cut_utf8(host, 128)) +
                      "\", which is no name of this server: add it to the server's hosts if it is");
  }
  if (request.count("Origin") > 0 && !options.hosts.allows_origin(request.field("Origin"), host)) {
    return failure(Errc::Denied, "Origin is \"" +
                                     std::string(cut_utf8(request.field("Origin"), 128)) +
                                     "\": other web pages may not call this server");
  }
  if (options.open && !request.peer.local) {
    return failure(Errc::Denied, "this server is open to its own machine only");
  }
  return {};
}

Result<void> Door::State::find(Call& call) {
  auto match = router.find(call.request().method, call.request().path);
  if (match) {
    call.match = std::move(*match);
    return {};
  }
  if (match.error().allowed.empty()) return failure(Errc::NotFound, "no such route");
  const std::string allowed = allow_list(match.error().allowed);
  call.exchange.set("Allow", allowed);
  return refuse(call, 405, "MethodNotAllowed",
                std::string(cut_utf8(call.request().method_text, 32)) +
                    " is not a method of this path: use " + allowed);
}

Result<control::Caller> Door::State::who(const http::Request& request) {
  if (options.logins != nullptr) {
    return TRY(doors::identify(request, services.access, *options.logins)).caller;
  }
  const std::string credential = TRY(doors::credential_of(request));
  auto caller = TRY(services.access.authenticate(credential, request.peer.address));
  caller.peer = request.peer.address;
  caller.request_id = request.id;
  return caller;
}

// The token, its scope, and whether the sandbox's id could be one.
Result<void> Door::State::identify(Call& call) {
  const Route& route = *call.match.route;
  if (route.need == Need::None) return {};
  auto caller = who(call.request());
  if (!caller) {
    if (caller.error().code == Errc::Unauthenticated) {
      call.exchange.set("WWW-Authenticate", R"(Bearer realm="caisson")");
    }
    if (caller.error().code == Errc::Exhausted) call.exchange.set("Retry-After", "60");
    return std::unexpected(caller.error());
  }
  call.caller = std::move(*caller);
  if (auto good = may(call.caller, route.need); !good) {
    services.access.denied(
        call.caller, std::string(http::to_string(route.method)) + " " + std::string(route.pattern));
    return good;
  }
  if (route.pattern.starts_with(kSandboxes) && !SandboxId::parse(call.match.id)) {
    // In the words of one that never was.
    auto unknown = services.fleet.get(call.caller, call.match.id);
    if (!unknown) return std::unexpected(unknown.error());
    return failure(Errc::NotFound, "no such sandbox");
  }
  return {};
}

Result<void> Door::State::check_query(Call& call) const {
  const Route& route = *call.match.route;
  if (route.query == "*") return {};  // it belongs to the program inside
  auto query = http::parse_query(call.request().query);
  if (!query) {
    return failure(Errc::InvalidArgument, "the query is malformed, or has too many parameters");
  }
  TRY(no_token_in(*query));
  TRY(known_query(route, *query));
  for (const auto& [name, value] : *query) {
    if (valid_utf8(value) != value) return bad_field(name, name + " is not valid UTF-8");
  }
  call.query = std::move(*query);
  return {};
}

awaitable<Result<void>> Door::State::serve(Call& call) {
  if (auto good = admit(call); !good) co_return good;
  if (closed) {
    call.exchange.set("Retry-After", "5");
    co_return refuse(call, 503, "Stopping", "the server is being stopped: try again later");
  }
  if (auto good = find(call); !good) co_return good;
  if (auto good = identify(call); !good) co_return good;
  if (auto good = check_query(call); !good) co_return good;
  std::shared_ptr<void> watched;
  if (call.match.route->need != Need::None) {
    auto cut = [&call] { call.exchange.cut(); };
    watched = services.access.watch(call.caller, co_await boost::asio::this_coro::executor, cut);
  }
  co_return co_await run(call);
}

// With a key, a call is done once, however often it is asked for.
awaitable<Result<void>> Door::State::run(Call& call) {
  const http::Request& request = call.request();
  const Route& route = *call.match.route;
  const std::string_view key = request.field(kKeyField);
  if (key.empty() || !takes_key(route.operation)) co_return co_await route.handler(call);
  Replies::Question question{call.caller.tenant, call.caller.actor, std::string(key),
                             request.method_text + " " + request.path + "?" + request.query};
  auto asked = replies.ask(std::move(question), Clock::now());
  if (!asked) {
    if (asked.error().code == Errc::Busy) call.exchange.set("Retry-After", "1");
    co_return std::unexpected(asked.error());
  }
  if (!asked->turn) co_return co_await answer_again(call, std::move(asked->reply));
  call.turn = &*asked->turn;
  auto outcome = co_await route.handler(call);
  if (outcome) asked->turn->done(call.body_digest);
  call.turn = nullptr;
  co_return outcome;
}

awaitable<Result<void>> Door::State::answer_again(Call& call, Reply reply) {
  auto body = co_await read_json(call, Body::Optional);
  if (!body) co_return std::unexpected(body.error());
  if (call.body_digest != reply.asked) {
    co_return bad_field(std::string(kKeyField),
                        "Idempotency-Key was used with another body: take a new one for each call");
  }
  if (reply.broken_off) {
    co_return failure(Errc::Gone,
                      "it was begun, and ended when its caller hung up: see what it did, then take "
                      "a new Idempotency-Key");
  }
  if (reply.status == 0) {
    co_return failure(Errc::Gone, "it was done; its answer was too large to be kept");
  }
  call.exchange.set("Idempotency-Replayed", "true");
  const std::string_view type = reply.body.empty() ? "" : "application/json";
  co_await call.exchange.respond(reply.status, type, std::move(reply.body));
  co_return Result<void>{};
}

awaitable<void> Door::State::refuse_with(Call& call, const Error& error) {
  const std::string& id = call.request().id;
  if (error.code == Errc::Internal) services.log.failed(id, error);
  if (call.exchange.begun()) {
    call.exchange.close_after();  // half an answer: only a cut tells that it is not whole
    co_return;
  }
  const unsigned status = call.status != 0 ? call.status : http_status(error.code);
  const std::string_view code = call.status != 0 ? call.code : to_string(error.code);
  if (status == 429 && error.code == Errc::Exhausted && call.caller.actor != "") {
    call.exchange.set("Retry-After", "1");
  }
  std::string body = error_text(code, error, id);
  body += '\n';
  co_await call.exchange.respond(status, "application/json", std::move(body));
}

void Door::State::record(const Call& call, TimePoint begun) {
  const http::Request& request = call.request();
  const auto took = duration_cast<microseconds>(Clock::now() - begun);
  const Route* route = call.match.route;
  metrics.count(route != nullptr ? call.match.index : routes().size(), call.exchange.status(),
                took);
  RequestLine line;
  line.request_id = request.id;
  line.method = request.method_text;
  line.path = std::string_view(request.path).substr(0, kLogPathBytesMax);
  line.route = route != nullptr ? route->pattern : std::string_view{};
  line.status = call.exchange.status();
  line.took = took;
  line.peer = request.peer.address;
  line.actor = call.caller.actor;
  line.tenant = call.caller.tenant;
  services.log.request(line);
}

awaitable<void> Door::handle(http::Exchange& exchange) {
  const TimePoint begun = Clock::now();
  State& state = *state_;
  Call call{exchange, state.services, {}, {}, {}, 0, {}};
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

}  // namespace caisson::rest
