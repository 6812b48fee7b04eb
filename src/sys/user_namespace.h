// sys/user_namespace.h — which user namespaces lie between us and another process.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::sys {

// The user namespace of process `pid`, or the one above it, that was made in our own: whoever is
// root of that one is so of all that lie in it.
[[nodiscard]] Result<UniqueFd> outermost_user_namespace(const std::string& pid);

}  // namespace caisson::sys
