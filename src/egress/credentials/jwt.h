// egress/credentials/jwt.h — the token by which a program shows a proxy whose sandbox it is in, as
// agentbox has it: a compact JWT with the session, its tenant and the hosts it may reach. One
// algorithm, HS256, is accepted, whatever the token says of itself; a token without an end is none.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "egress/credentials/secret.h"
#include "policy/capability.h"

namespace caisson::egress {

inline constexpr std::size_t kTokenBytesMax = std::size_t{16} * 1024;
inline constexpr std::size_t kTokenHostsMax = 512;
inline constexpr std::size_t kTokenKeyBytesMin = 32;  // RFC 7518: as long as the hash
inline constexpr std::chrono::hours kTokenLife{4};

using WallTime = std::chrono::system_clock::time_point;

struct ProxyClaims {
  std::string session_id;
  std::optional<std::string> tenant_id;
  std::vector<std::string> allowed_hosts;  // as written, trimmed
  std::int64_t expires = 0;                // seconds since 1970

  friend bool operator==(const ProxyClaims&, const ProxyClaims&) = default;
};

// Without the "jwt_" of the proxy's password. InvalidArgument for a host with a comma, as the token
// joins them by commas, and for a key that is too short.
[[nodiscard]] Result<std::string> mint_token(const Secret& key, const ProxyClaims& claims);

enum class TokenFault : std::uint8_t {
  TooLong,
  Malformed,  // not three parts of base64url, or not JSON where JSON belongs
  Algorithm,  // anything but HS256
  Signature,
  Claims,   // another issuer, no session, or a claim of a wrong kind
  Expired,  // or without an end
};
[[nodiscard]] std::string_view to_string(TokenFault fault) noexcept;

[[nodiscard]] std::expected<ProxyClaims, TokenFault> verify_token(const Secret& key,
                                                                  std::string_view token,
                                                                  WallTime now);

// The token in `Proxy-Authorization: Basic base64(user:jwt_TOKEN)`; the user is ignored. Nothing
// when the field holds something else.
[[nodiscard]] std::optional<std::string> token_of(std::string_view proxy_authorization);

// What the hosts of a token allow: `*.x` is x and everything below it, on ports 80 and 443. Entries
// that never match in that dialect are dropped: `*`, `*x`, ports, trailing dots, addresses. So is
// localhost, which there means "no network".
[[nodiscard]] std::vector<policy::NetworkEgressRule> rules_of_hosts(
    const std::vector<std::string>& allowed_hosts);

}  // namespace caisson::egress
