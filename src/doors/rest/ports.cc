// Into a port of a sandbox, under a path of this server.
#include <fmt/format.h>

#include "doors/proxy/proxy.h"
#include "doors/rest/handlers.h"

namespace caisson::rest {

awaitable<Result<void>> proxy_port(Call& call) {
  auto ticket = call.services.streams.enter(call.caller.actor);
  if (!ticket) co_return std::unexpected(ticket.error());
  const auto port = whole_number("port", call.match.part, 1, 65535);
  if (!port) co_return std::unexpected(port.error());
  const auto number = static_cast<std::uint16_t>(**port);
  auto inside = co_await call.fleet().connect_port(call.caller, call.id(), number);
  if (!inside) co_return std::unexpected(inside.error());
  std::string tail = call.match.raw_tail.empty() ? "/" : call.match.raw_tail;
  if (!call.request().query.empty()) tail += '?' + call.request().query;
  proxy::Passage passage;
  passage.port = number;
  passage.raw_tail = tail;
  passage.prefix = fmt::format("/api/v1/sandboxes/{}/ports/{}", call.id(), number);
  co_return co_await proxy::pass(call.exchange, std::move(inside->socket), std::move(passage));
}

}  // namespace caisson::rest
