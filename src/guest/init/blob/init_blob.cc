#include "guest/init_blob.h"

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): names of the assembler file.
extern const std::byte caisson_init_begin[];
extern const std::byte caisson_init_end[];
// NOLINTEND(readability-identifier-naming)
}

namespace caisson::guest {

std::span<const std::byte> init_program() noexcept {
  return {caisson_init_begin, static_cast<std::size_t>(caisson_init_end - caisson_init_begin)};
}

}  // namespace caisson::guest
