// engine/nonce.h — 128 random bits that a sandbox's init must show before a word of it is believed.
#pragma once

#include <array>
#include <cstddef>

#include "guest/protocol/protocol.h"

namespace caisson::engine {

using Nonce = std::array<std::byte, wire::kNonceBytes>;

}  // namespace caisson::engine
