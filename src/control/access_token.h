// control/access_token.h — what a token looks like and what may be asked of one. Pure but for the
// random bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "control/access.h"

namespace caisson::control {

inline constexpr std::string_view kTokenPrefix = "cais_";
inline constexpr std::size_t kTokenIdLength = 12;
inline constexpr std::size_t kTokenSecretLength = 52;

struct Credential {
  std::string_view id;
  std::string_view secret;
};
// Nothing when it is not written as a token is.
[[nodiscard]] std::optional<Credential> parse_credential(std::string_view text) noexcept;

// The id of a token that another system gave out, from its text; nothing for a text that cannot be
// one. The secret is then the whole text.
[[nodiscard]] std::optional<std::string> taken_over_id(std::string_view text);

[[nodiscard]] Result<void> check_tenant(std::string_view tenant);
// The first `length` characters of it, in lower case.
[[nodiscard]] std::string base32(std::span<const std::byte> bytes, std::size_t length);

[[nodiscard]] Result<NewToken> make_token_at(const TokenWish& wish, store::WallTime now);

}  // namespace caisson::control
