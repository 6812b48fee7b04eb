// sys/steering.h — one listener for every port of an address range, by a small program that the
// kernel asks which socket a connection is for. It holds in one network, as long as the descriptor
// that steer() gives is open somewhere; the socket it picks must be of that network.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::sys {

inline constexpr std::size_t kSteeredPortsMax = 8;

struct Steered {
  std::array<std::uint8_t, 4> v4{};  // whole range, every TCP port
  unsigned v4_bits = 32;
  std::array<std::uint8_t, 8> v6{};           // the first half of the address: a /64
  std::span<const std::uint16_t> loopback{};  // ports of 127.0.0.1 and ::1
};

// `network` is a network namespace's descriptor; `listener` a TCP socket in it, of AF_INET6 for
// both families, or of AF_INET for one. Errors: EPERM where programs are not for us, EINVAL or
// ENOSYS where the kernel has no such kind.
[[nodiscard]] Result<UniqueFd> steer(int network, int listener, const Steered& what);

}  // namespace caisson::sys
