// control/caller.h — who is asking. Doors make it once per request, from a token.
#pragma once

#include <cstdint>
#include <string>

#include "store/store.h"

namespace caisson::control {

struct Caller {
  std::string tenant;
  std::string actor;               // token id; "open" in open mode
  std::uint8_t scopes = 0;         // store::Scope, or'ed; Admin includes all
  std::int64_t max_sandboxes = 0;  // of this token; 0: the server's own limit
  std::string peer;                // address
  std::string request_id;

  [[nodiscard]] bool may(store::Scope scope) const noexcept {
    const auto wanted = static_cast<std::uint8_t>(scope);
    return (scopes & (wanted | static_cast<std::uint8_t>(store::Scope::Admin))) != 0;
  }
};

}  // namespace caisson::control
