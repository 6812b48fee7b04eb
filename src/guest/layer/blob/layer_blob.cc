#include "guest/layer_blob.h"

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): names of the assembler file.
extern const std::byte caisson_layer_begin[];
extern const std::byte caisson_layer_end[];
// NOLINTEND(readability-identifier-naming)
}

namespace caisson::guest {

std::span<const std::byte> layer_program() noexcept {
  return {caisson_layer_begin, static_cast<std::size_t>(caisson_layer_end - caisson_layer_begin)};
}

}  // namespace caisson::guest
