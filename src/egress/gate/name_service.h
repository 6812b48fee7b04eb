// egress/gate/name_service.h — the resolver inside. An allowed name has an address that exists only
// there; every other name does not exist. Nothing is asked upstream for either: a query that left
// the host would carry a guest's bytes to whoever owns the zone.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>

#include "egress/gate/connection.h"
#include "egress/gate/gate_core.h"
#include "egress/wire/dns_query.h"

namespace caisson::egress {

// Packets answered before others on the thread have their turn.
inline constexpr int kNameBurstMax = 64;

// What to send back, if anything.
[[nodiscard]] std::optional<Buffer> answer_query(GateCore& core, Bytes message,
                                                 DnsTransport transport);

// By UDP, on core.name_socket, until it is closed.
void serve_names(const std::shared_ptr<GateCore>& core);
// Tells what was held back of refused names.
void tell_held_names(GateCore& core, TimePoint now);
// By TCP, one client.
[[nodiscard]] boost::asio::awaitable<void> serve_names_tcp(Connection& connection);

}  // namespace caisson::egress
