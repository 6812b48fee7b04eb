// egress/gate/dns_exchange.h — one question to one name server, by UDP and, where the answer was
// cut short, by TCP. Each question has a socket of its own, so that its port is the kernel's random
// choice, and an id that is ours; whatever else arrives there is passed over, within a bound.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "egress/gate/resolv_conf.h"
#include "egress/wire/dns_upstream.h"

namespace caisson::egress {

// Packets that are no answer of ours, before a question is given up.
inline constexpr int kStrayAnswersMax = 64;

[[nodiscard]] boost::asio::awaitable<Result<UpstreamAnswer>> ask_name_server(
    boost::asio::any_io_executor executor, NameServer server, HostName host, DnsType type,
    milliseconds limit);

}  // namespace caisson::egress
