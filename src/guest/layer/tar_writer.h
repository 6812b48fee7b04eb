// guest/layer/tar_writer.h — a tar as POSIX has it, with extended headers only where an entry needs
// one, hashed on its way out. The same entries give the same bytes.
#pragma once

#include <time.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "guest/layer/digest.h"
#include "guest/layer/layer.h"
#include "guest/layer/tree.h"

namespace caisson::layer {

struct TarItem {
  std::string name;  // a folder's ends in '/'
  std::string link;
  char type = '0';  // '1' hard link, '2' link, '5' folder, '6' fifo
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t size = 0;
  struct timespec mtime{};
  std::vector<Attribute> attributes;
};

class TarWriter {
 public:
  TarWriter(int fd, Meter& meter, Hashing hashing = Hashing::Wanted)
      : fd_(fd), meter_(meter), hashing_(hashing) {
    buffer_.reserve(kBufferBytes);
  }

  [[nodiscard]] Result<void> begin(const TarItem& item);
  // The item's content, in any pieces; all of it before the next begin().
  [[nodiscard]] Result<void> content(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> end_content();
  [[nodiscard]] Result<std::array<std::uint8_t, 32>> finish();
  // Bytes so far. After begin(): where the item's content will lie.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  // Where the target of the link lies that was begun last.
  [[nodiscard]] std::uint64_t link_position() const noexcept { return link_position_; }

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{1024} * 1024;

  [[nodiscard]] Result<void> put(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> flush();

  int fd_;
  Meter& meter_;
  Hashing hashing_;
  Digest digest_;
  std::vector<std::byte> buffer_;
  std::uint64_t in_entry_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t link_position_ = 0;
};

}  // namespace caisson::layer
