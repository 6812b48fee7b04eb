// engine/microvm/kernel_image.h — the kernel as a monitor wants it: the ELF file inside a bzImage,
// which boots seconds sooner where the processor is emulated; and single modules. Pure: bytes in,
// bytes out, each within a named limit. They come from the host's own packages.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace caisson::engine::microvm {

inline constexpr std::size_t kKernelBytesMax = 256UL << 20U;
inline constexpr std::size_t kModuleBytesMax = 32UL << 20U;

enum class Packing : std::uint8_t { None, Gzip, Xz, Zstd, Lz4, Unknown };
[[nodiscard]] Packing packing_of(std::span<const std::byte> bytes) noexcept;
[[nodiscard]] std::string_view to_string(Packing packing) noexcept;

// As it is, or unpacked; at most `bytes_max`. What follows the packed stream is left alone.
[[nodiscard]] Result<std::vector<std::byte>> unpack(std::span<const std::byte> packed,
                                                    std::size_t bytes_max);

// The ELF kernel in a bzImage of boot protocol 2.08 or later; an ELF file is returned as it is.
[[nodiscard]] Result<std::vector<std::byte>> extract_kernel(std::span<const std::byte> image);

}  // namespace caisson::engine::microvm
