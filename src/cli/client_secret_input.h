// cli/client_secret_input.h — a secret from standard input, so that it stands neither in a command
// line nor in a shell's history.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::cli {

// All of standard input, without the newline that an editor or echo puts at its end. `what` is for
// the person at a terminal, and for errors.
[[nodiscard]] Result<std::string> read_secret(std::string_view what, std::size_t bytes_max);

}  // namespace caisson::cli
