#include "main/front_door.h"

#include "doors/shared/identity.h"

namespace caisson::server {
namespace {

// For a proxy of this machine that makes certificates: only for names that lead somewhere.
constexpr std::string_view kAskPath = "/internal/ask";
constexpr std::string_view kOpenPath = "/preview/open";

std::string_view text_of(bool known) { return known ? "yes\n" : "no\n"; }

}  // namespace

boost::asio::awaitable<void> FrontDoor::handle(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  if (rooms_.preview.answers(request)) return rooms_.preview.handle(exchange);
  if (request.path == kAskPath) return ask(exchange);
  if (request.path == kOpenPath) return open_preview(exchange);
  if (mcp::Door::answers(request.path)) return rooms_.mcp.handle(exchange);
  if (rooms_.console.answers(request))
    return is_ours(request) ? rooms_.console.handle(exchange) : refuse_host(exchange);
  if (rooms_.sandboxer.answers(request)) return rooms_.sandboxer.handle(exchange);
  if (rooms_.daiv.answers(request.path)) return rooms_.daiv.handle(exchange);
  return rooms_.rest.handle(exchange);
}

// The doors with an API of their own judge this themselves, in their own words.
bool FrontDoor::is_ours(const http::Request& request) const {
  const std::string_view host = request.field("Host");
  return rooms_.hosts.allows_host(host) &&
         (request.count("Origin") == 0 ||
          rooms_.hosts.allows_origin(request.field("Origin"), host));
}

boost::asio::awaitable<void> FrontDoor::refuse_host(http::Exchange& exchange) {
  co_await exchange.respond(421, "text/plain", "this is no name of this server\n");
}

boost::asio::awaitable<void> FrontDoor::ask(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  bool known = false;
  if (request.peer.local && request.count("X-Forwarded-For") == 0) {
    const auto query = http::parse_query(request.query);
    for (const auto& [name, value] :
         query ? *query : std::vector<std::pair<std::string, std::string>>()) {
      if (name == "domain") known = rooms_.preview.knows(value);
    }
  }
  exchange.set("Cache-Control", "no-store");
  co_await exchange.respond(known ? 200 : 404, "text/plain", std::string(text_of(known)));
}

boost::asio::awaitable<void> FrontDoor::open_preview(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  exchange.set("Cache-Control", "no-store");
  if (!is_ours(request)) co_return co_await refuse_host(exchange);
  const auto who = doors::identify(request, rooms_.access, rooms_.logins);
  co_await rooms_.preview.open(exchange, who ? &who->caller : nullptr);
}

}  // namespace caisson::server
