// guest/boot_blob.h — the program caisson-boot, carried inside the one that launches sandboxes.
#pragma once

#include <cstddef>
#include <span>

namespace caisson::guest {

// A whole static ELF file, the first program of a microVM. Lives as long as the program.
[[nodiscard]] std::span<const std::byte> boot_program() noexcept;

}  // namespace caisson::guest
