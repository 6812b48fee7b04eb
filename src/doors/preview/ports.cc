// From a name to a socket inside.
#include <fmt/format.h>

#include "doors/preview/state.h"

namespace caisson::preview {

// The first connection of a visit is in the audit; a page's other requests are the same visit. All
// strangers are one visitor, whichever port they try and whoever listens there: the rows are
// charged to the owner, who would be turned away himself when strangers had filled his share.
awaitable<Result<control::PortSocket>> Door::State::connect(const control::Caller& caller,
                                                            std::string sandbox,
                                                            std::uint16_t port) {
  const bool stranger = caller.actor == kPublicActor;
  const std::string key =
      stranger ? fmt::format("{} {}", sandbox, kPublicActor)
               : fmt::format("{} {} {} {}", sandbox, port, caller.actor, caller.peer);
  if (visits.find(key, Clock::now())) {
    co_return co_await fleet.connect_again(caller, std::move(sandbox), port);
  }
  if (stranger) visits.put(key, true, Clock::now());
  auto socket = co_await fleet.connect_port(caller, std::move(sandbox), port);
  if (socket && !stranger) visits.put(key, true, Clock::now());
  co_return socket;
}

awaitable<Result<Door::State::Reached>> Door::State::reach(const control::Caller& caller,
                                                           Name name) {
  if (!name.port) {
    if (const auto known = likely_ports.find(name.sandbox, Clock::now())) {
      auto socket = co_await connect(caller, name.sandbox, *known);
      if (socket) co_return Reached{std::move(*socket), *known};
      likely_ports.drop(name.sandbox);
    }
    const auto ports = co_await fleet.ports(caller, name.sandbox);
    if (!ports) co_return std::unexpected(ports.error());
    name.port = control::likely_port(*ports);
    if (!name.port) co_return failure(Errc::Protocol, "nothing listens inside on any port yet");
    likely_ports.put(name.sandbox, *name.port, Clock::now());
  }
  auto socket = co_await connect(caller, name.sandbox, *name.port);
  if (!socket) {
    likely_ports.drop(name.sandbox);
    co_return std::unexpected(socket.error());
  }
  co_return Reached{std::move(*socket), *name.port};
}

}  // namespace caisson::preview
