// guest/layer/archive_stream.h — the plain bytes of an archive, decompressed, counted and, if it is
// an image's, hashed by a thread of its own while the caller writes files. The two meet in a ring
// of a few blocks.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "guest/layer/decoder.h"

namespace caisson::layer {

inline constexpr std::uint64_t kRatioFreeBytes = std::uint64_t{16} * 1024 * 1024;

class ArchiveStream {
 public:
  static constexpr std::size_t kBlockBytes = std::size_t{1024} * 1024;
  static constexpr std::size_t kBlocks = 8;

  struct Limits {
    std::uint64_t bytes_max;  // after decompression
    std::uint32_t ratio_max;  // of what came out to what went in, beyond kRatioFreeBytes; 0: any
  };

  ArchiveStream(int fd, Limits limits, Origin origin = Origin::Image);
  ArchiveStream(const ArchiveStream&) = delete;
  ArchiveStream& operator=(const ArchiveStream&) = delete;
  ~ArchiveStream();

  // The next bytes, at most `bytes_max`, good until the next call. Empty at the end.
  [[nodiscard]] Result<std::span<const std::byte>> take(std::uint64_t bytes_max);
  // As many as `out` has room for; fewer at the end only.
  [[nodiscard]] Result<std::size_t> read(std::span<std::byte> out);
  [[nodiscard]] Result<void> skip(std::uint64_t bytes);
  // To the end. The digest is of the whole stream, so what lies behind a tar's end is in it too.
  [[nodiscard]] Result<void> drain();

  [[nodiscard]] std::uint64_t bytes_in();
  [[nodiscard]] std::array<std::uint8_t, 32> digest();  // of an image's layer; after drain()

 private:
  struct Block {
    std::vector<std::byte> bytes;
    std::size_t size = 0;
  };

  void produce(int fd);
  [[nodiscard]] Result<void> pump(int fd);
  [[nodiscard]] Result<void> check(std::uint64_t in, std::uint64_t out) const;
  [[nodiscard]] bool wait_for_room();

  const Limits limits_;
  const Origin origin_;
  std::array<Block, kBlocks> blocks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t filled_ = 0;  // blocks so far; the ring's two ends
  std::uint64_t emptied_ = 0;
  std::uint64_t bytes_in_ = 0;
  bool ended_ = false;
  bool stop_ = false;
  std::optional<Error> error_;
  std::array<std::uint8_t, 32> digest_{};
  bool holding_ = false;  // the caller reads the block at `emptied_`
  std::size_t at_ = 0;    // and has come so far in it
  std::thread thread_;    // last: it uses everything above
};

}  // namespace caisson::layer
