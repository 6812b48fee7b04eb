// control/server_program.h — where caissond is: $CAISSON_SERVER_PROGRAM, or beside the caisson
// command.
#pragma once

#include <string>

#include "base/result.h"

namespace caisson::control {

// `command` is the caisson command; empty: this very program.
[[nodiscard]] Result<std::string> find_server(const std::string& command = {});

}  // namespace caisson::control
