// egress/gate/dial.h — a connection to one of the addresses that were judged, and to no other.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "egress/gate/deadline.h"
#include "egress/gate/stream.h"
#include "egress/wire/ip_address.h"

namespace caisson::egress {

inline constexpr std::size_t kDialAddressesMax = 6;  // of those that a name has

// One after the other, `each` for one, until one answers. `deadline` ends the wait by cancelling
// `stream`. TimedOut when the last try got no answer.
[[nodiscard]] boost::asio::awaitable<Result<IpAddress>> dial(Stream& stream, Deadline& deadline,
                                                             std::vector<IpAddress> addresses,
                                                             std::uint16_t port, milliseconds each);

}  // namespace caisson::egress
