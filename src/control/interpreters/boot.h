// control/interpreters/boot.h — the first lines of an interpreter's program, which fetch the rest.
//
// What stands on a command line stands in every `ps` inside, so only these few lines do. The rest
// comes by standard input, before the first frame: its size as eight hexadecimal digits, then it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "control/code.h"

namespace caisson::control::interpreters {

[[nodiscard]] std::vector<std::string> boot_command(Language language, std::string settings);
[[nodiscard]] std::string boot_text(std::string_view program);

}  // namespace caisson::control::interpreters
