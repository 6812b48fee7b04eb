// guest/carrier_blob.h — the program caisson-carrier, carried inside the one that launches
// sandboxes.
#pragma once

#include <cstddef>
#include <span>

namespace caisson::guest {

// A whole static ELF file, to be written into a memfd. Lives as long as the program.
[[nodiscard]] std::span<const std::byte> carrier_program() noexcept;

}  // namespace caisson::guest
