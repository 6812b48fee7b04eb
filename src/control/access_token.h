// control/access_token.h — what a token looks like and what may be asked of one. Pure but for the
// random bytes.
#pragma once

#include <optional>
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

[[nodiscard]] Result<NewToken> make_token_at(const TokenWish& wish, store::WallTime now);

}  // namespace caisson::control
