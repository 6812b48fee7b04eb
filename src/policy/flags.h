// policy/flags.h — the short forms a person types on the command line: 512m, 30s,
// api.example.com:443.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "policy/capability.h"

namespace caisson::policy {

inline constexpr std::uint64_t kFlagBytesMax = std::uint64_t{1} << 50;  // 1 PiB
inline constexpr seconds kFlagDurationMax = std::chrono::hours(24 * 3650);

// "1048576", "512m", "1.5g", "64MiB", "2kb": units are powers of 1024, in any case. "unlimited" is
// no value.
[[nodiscard]] Result<std::optional<std::uint64_t>> parse_bytes(std::string_view text);

// "30s", "1.5", "250ms", "2m", "1h", "7d"; without a unit seconds. Greater than zero.
[[nodiscard]] Result<nanoseconds> parse_duration(std::string_view text);

// "HOST" or "HOST:PORT"; HOST may begin with "*.".
[[nodiscard]] Result<NetworkEgressRule> parse_allow(std::string_view text);

// The first word of a command: not empty, and without ; | & $ ` or a newline. No shell ever reads
// it here; such a word tells that somebody expected one to, and would get something else than he
// wrote.
[[nodiscard]] Result<void> is_command_acceptable(std::string_view argv0);

}  // namespace caisson::policy
