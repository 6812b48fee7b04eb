#include "guest/boot_blob.h"

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): names of the assembler file.
extern const std::byte caisson_boot_begin[];
extern const std::byte caisson_boot_end[];
// NOLINTEND(readability-identifier-naming)
}

namespace caisson::guest {

std::span<const std::byte> boot_program() noexcept {
  return {caisson_boot_begin, static_cast<std::size_t>(caisson_boot_end - caisson_boot_begin)};
}

}  // namespace caisson::guest
