// cli/vm.h — `caisson vm`: the kernel that microVMs boot.
#pragma once

#include <span>

namespace caisson::cli {

[[nodiscard]] int vm_command(std::span<char*> args);

}  // namespace caisson::cli
