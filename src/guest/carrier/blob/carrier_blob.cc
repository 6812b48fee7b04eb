#include "guest/carrier_blob.h"

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): names of the assembler file.
extern const std::byte caisson_carrier_begin[];
extern const std::byte caisson_carrier_end[];
// NOLINTEND(readability-identifier-naming)
}

namespace caisson::guest {

std::span<const std::byte> carrier_program() noexcept {
  return {caisson_carrier_begin,
          static_cast<std::size_t>(caisson_carrier_end - caisson_carrier_begin)};
}

}  // namespace caisson::guest
