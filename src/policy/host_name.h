// policy/host_name.h — the one function that says what a host name is. Rules, URLs, flags, the
// resolver and the proxy all ask it, so that no two of them can read the same bytes as different
// hosts. What is odd is refused, not repaired: an allowlist is worth as much as its least careful
// parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::policy {

inline constexpr std::size_t kHostBytesMax = 253;
inline constexpr std::size_t kLabelBytesMax = 63;
inline constexpr std::int64_t kPortMax = 65535;

// Lower case. Refused: an IP address in any spelling (127.1, 0x7f.1, 2130706433, [::1]), a trailing
// dot, empty or long labels, and every byte but letters, digits, '-', '_' and '.'.
[[nodiscard]] Result<std::string> canonical_host(std::string_view text);

// The same, but "*." may stand in front.
[[nodiscard]] Result<std::string> canonical_rule_domain(std::string_view text);

// 1 to 65535, decimal, without sign or leading zero.
[[nodiscard]] Result<std::uint16_t> parse_port(std::string_view text);

}  // namespace caisson::policy
