// policy/way_out.h — where a guest that may reach others finds the way out: ports on its own
// loopback, and addresses that exist only inside. Whoever opens the sockets and whoever serves them
// must agree, and neither knows the other.
#pragma once

#include <array>
#include <cstdint>

namespace caisson::policy {

// The first byte tells SOCKS5 from HTTP, so both are spoken on both of the first two.
inline constexpr std::uint16_t kProxyPort = 3128;
inline constexpr std::uint16_t kSocksPort = 1080;
inline constexpr std::uint16_t kResolverPort = 53;

// Each name that the resolver inside has answered is one address of either range. The first is set
// aside for measuring devices and routed nowhere; the second is a unique local prefix, whose forty
// random bits are not random, because it never leaves.
inline constexpr std::array<std::uint8_t, 4> kSyntheticV4 = {198, 18, 0, 0};
inline constexpr unsigned kSyntheticV4Bits = 15;
inline constexpr std::array<std::uint8_t, 16> kSyntheticV6 = {0xfd, 'c', 'a', 'i',
                                                              's',  's', 'o', 'n'};
inline constexpr unsigned kSyntheticV6Bits = 64;

}  // namespace caisson::policy
