// guest/layer/decoder.h — an archive's file as plain bytes: gzip, bzip2, xz, zstd, or as it is.
// What comes out is not looked into again: compression inside of compression stays what it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

namespace caisson::layer {

inline constexpr std::size_t kInputBytes = std::size_t{1024} * 1024;
inline constexpr int kZstdWindowLogMax = 27;  // 128 MiB, as every reader of images has it

inline constexpr std::uint64_t kXzMemoryMax = std::uint64_t{128} * 1024 * 1024;

// Whose archive it is. An image's layers are plain, gzip or zstd, and nothing else by their
// specification; anybody else may use bzip2 and xz too.
enum class Origin : std::uint8_t { Image, Anybody };

// A file read from its beginning, in large pieces.
class InputFile {
 public:
  explicit InputFile(int fd) : fd_(fd), buffer_(kInputBytes) {}

  // What is read and not yet used; reads when there is nothing. Empty at the end of the file.
  [[nodiscard]] Result<std::span<const std::byte>> ahead();
  void use(std::size_t bytes) noexcept { at_ += bytes, used_ += bytes; }
  [[nodiscard]] std::uint64_t used() const noexcept { return used_; }

 private:
  int fd_;
  std::vector<std::byte> buffer_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  std::uint64_t used_ = 0;
};

class Decoder {
 public:
  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  virtual ~Decoder() = default;
  // Some bytes, 0 only at the end of the archive. A file that ends too early is a failure.
  [[nodiscard]] virtual Result<std::size_t> fill(std::span<std::byte> out) = 0;
};

// By the first bytes of the file.
[[nodiscard]] Result<std::unique_ptr<Decoder>> make_decoder(InputFile& input, Origin origin);

}  // namespace caisson::layer
