// engine/microvm/sha256.h — SHA-256, for the files of vm_store.h: the command that launches has no
// library of ciphers in it, and a digest of a kernel needs none.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace caisson::engine::microvm {

// In lower-case hexadecimal.
[[nodiscard]] std::string sha256(std::span<const std::byte> bytes);

}  // namespace caisson::engine::microvm
