#include <boost/asio/this_coro.hpp>

#include "doors/mcp/talk.h"
#include "doors/shared/text.h"

namespace caisson::mcp {

namespace {

constexpr std::size_t kShownBytesMax = 128;

std::string shown(std::string_view text) {
  return doors::lossy_utf8(doors::cut_utf8(text, kShownBytesMax));
}

}  // namespace

struct Door::State {
  State(boost::asio::any_io_executor executor, control::Fleet& fleet, control::Access& access,
        McpOptions wanted)
      : options(std::move(wanted)),
        budget(options.held_bytes_max, options.held_per_tenant_max, options.held_patience),
        homes(executor, fleet, options),
        sessions(homes, options),
        streams("streams", options.streams_max, options.streams_per_token),
        services{executor, fleet, access, options, budget, homes, sessions, streams} {}

  awaitable<void> serve(http::Exchange& exchange, control::Caller& caller);
  awaitable<bool> admit(http::Exchange& exchange);
  Result<control::Caller> identify(const http::Request& request);

  McpOptions options;
  doors::Budget budget;
  Homes homes;
  Sessions sessions;
  Seats streams;
  Services services;
  bool closed = false;
};

Door::Door(boost::asio::any_io_executor executor, control::Fleet& fleet, control::Access& access,
           McpOptions options)
    : state_(std::make_unique<State>(std::move(executor), fleet, access, std::move(options))) {}

Door::~Door() = default;

void Door::close() noexcept { state_->closed = true; }

awaitable<void> Door::sweep() {
  state_->sessions.sweep();
  co_return;
}

// A page of the world can bend its own name to our address, or send a browser here: neither comes
// past this.
awaitable<bool> Door::State::admit(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  const std::string_view host = request.field("Host");
  if (!options.hosts.allows_host(host)) {
    co_await refuse(exchange, 421,
                    "Host is \"" + shown(host) +
                        "\", which is no name of this server: add it to the "
                        "server's hosts if it is");
    co_return false;
  }
  if (request.count("Origin") > 0 && !options.hosts.allows_origin(request.field("Origin"), host)) {
    co_await refuse(exchange, 403,
                    "Origin is \"" + shown(request.field("Origin")) +
                        "\": other web pages may not call this server");
    co_return false;
  }
  if (options.open && !request.peer.local) {
    co_await refuse(exchange, 403, "this server is open to its own machine only");
    co_return false;
  }
  if (closed) {
    exchange.set("Retry-After", "5");
    co_await refuse(exchange, 503, "the server is being stopped: try again later");
    co_return false;
  }
  co_return true;
}

// Tokens only: a cookie would come along with whatever a page makes a browser send.
Result<control::Caller> Door::State::identify(const http::Request& request) {
  const std::string credential = TRY(doors::credential_of(request));
  auto caller = TRY(services.access.authenticate(credential, request.peer.address));
  caller.peer = request.peer.address;
  caller.request_id = request.id;
  return caller;
}

awaitable<void> Door::State::serve(http::Exchange& exchange, control::Caller& caller) {
  if (!co_await admit(exchange)) co_return;
  auto known = identify(exchange.request());
  if (!known) {
    const bool guessed = known.error().code == Errc::Exhausted;
    if (guessed) exchange.set("Retry-After", "60");
    if (known.error().code == Errc::Unauthenticated)
      exchange.set("WWW-Authenticate", R"(Bearer realm="caisson")");
    co_await refuse(exchange, guessed ? 429 : 401, known.error().message);
    co_return;
  }
  caller = *std::move(known);
  auto cut = [&exchange] { exchange.cut(); };
  const auto watched =
      services.access.watch(caller, co_await boost::asio::this_coro::executor, cut);
  Talk talk{exchange, services, caller};
  const http::Request& request = exchange.request();
  if (request.wants_websocket) co_return co_await talk_stream(talk);
  if (request.method == http::Method::Post) co_return co_await talk_post(talk);
  if (request.method == http::Method::Get) co_return co_await talk_get(talk);
  if (request.method == http::Method::Delete) co_return co_await talk_delete(talk);
  exchange.set("Allow", "POST, GET, DELETE");
  co_await refuse(exchange, 405, "use POST");
}

awaitable<void> Door::handle(http::Exchange& exchange) {
  const TimePoint begun = Clock::now();
  State& state = *state_;
  control::Caller caller;
  exchange.set("X-Content-Type-Options", "nosniff");
  exchange.set("Cache-Control", "no-store");
  std::optional<Error> bug;
  try {
    co_await state.serve(exchange, caller);
  } catch (const std::exception& thrown) {  // the one place: a bug ends its request
    bug = Error{Errc::Internal, std::string("exception: ") + thrown.what(), 0};
  }
  const http::Request& request = exchange.request();
  if (bug && state.options.on_failure) state.options.on_failure(request.id, *bug);
  if (bug && exchange.begun()) exchange.close_after();
  if (bug && !exchange.begun()) co_await refuse(exchange, 500, "something failed in the server");
  if (!state.options.on_request) co_return;
  state.options.on_request(doors::request_line(exchange, caller, begun));
}

}  // namespace caisson::mcp
