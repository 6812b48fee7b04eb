// egress/credentials/seal.h — one secret, encrypted and authenticated together with its name.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "egress/credentials/secret.h"

namespace caisson::egress {

inline constexpr std::size_t kSealKeyBytes = 32;
inline constexpr std::size_t kSealNonceBytes = 12;
inline constexpr std::size_t kSealTagBytes = 16;

[[nodiscard]] Result<Secret> new_seal_key();

// Nonce, ciphertext, tag. The nonce is random: a key seals a few thousand times in its life.
[[nodiscard]] Result<std::string> seal(const Secret& key, std::string_view name,
                                       const Secret& value);
// Denied when key, name or bytes are not those that were sealed.
[[nodiscard]] Result<Secret> unseal(const Secret& key, std::string_view name,
                                    std::string_view sealed);

}  // namespace caisson::egress
