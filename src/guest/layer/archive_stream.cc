#include "guest/layer/archive_stream.h"

#include <algorithm>
#include <string>

#include "guest/layer/digest.h"

namespace caisson::layer {

ArchiveStream::ArchiveStream(int fd, Limits limits, Origin origin)
    : limits_(limits), origin_(origin), thread_([this, fd] { produce(fd); }) {}

ArchiveStream::~ArchiveStream() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ArchiveStream::produce(int fd) {
  const Result<void> result = pump(fd);
  {
    const std::lock_guard lock(mutex_);
    if (!result) error_ = result.error();
    ended_ = true;
  }
  changed_.notify_all();
}

bool ArchiveStream::wait_for_room() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stop_ || filled_ - emptied_ < kBlocks; });
  return !stop_;
}

Result<void> ArchiveStream::check(std::uint64_t in, std::uint64_t out) const {
  if (out > limits_.bytes_max) {
    return failure(Errc::TooLarge,
                   "the archive has more than " + std::to_string(limits_.bytes_max) + " bytes");
  }
  // By division, so that no product can wrap.
  if (limits_.ratio_max != 0 && out > kRatioFreeBytes && out / limits_.ratio_max > in) {
    return failure(Errc::TooLarge, "the archive becomes more than " +
                                       std::to_string(limits_.ratio_max) + " times its size");
  }
  return {};
}

// The thread's whole life. A block is filled before it is handed over, so the tar's own blocks
// never lie across two.
Result<void> ArchiveStream::pump(int fd) {
  InputFile input(fd);
  const std::unique_ptr<Decoder> decoder = TRY(make_decoder(input, origin_));
  Digest digest;
  std::uint64_t out = 0;
  for (std::uint64_t number = 0;; ++number) {
    if (!wait_for_room()) return {};
    Block& block = blocks_[number % kBlocks];
    if (block.bytes.empty()) block.bytes.resize(kBlockBytes);
    block.size = 0;
    bool ended = false;
    while (block.size < kBlockBytes && !ended) {
      const std::size_t made = TRY(decoder->fill(std::span(block.bytes).subspan(block.size)));
      block.size += made;
      out += made;
      ended = made == 0;
      TRY(check(input.used(), out));
    }
    // Only an image's layer is known by its digest.
    if (origin_ == Origin::Image) digest.add(std::span(block.bytes).first(block.size));
    {
      const std::lock_guard lock(mutex_);
      if (ended) digest_ = digest.finish();
      bytes_in_ = input.used();
      ++filled_;
    }
    changed_.notify_all();
    if (ended) return {};
  }
}

Result<std::span<const std::byte>> ArchiveStream::take(std::uint64_t bytes_max) {
  for (;;) {
    if (!holding_) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return filled_ != emptied_ || ended_; });
      if (filled_ == emptied_) {
        if (error_) return std::unexpected(*error_);
        return std::span<const std::byte>();
      }
      holding_ = true;
      at_ = 0;
    }
    const Block& block = blocks_[emptied_ % kBlocks];
    if (at_ < block.size) {
      const auto size =
          static_cast<std::size_t>(std::min<std::uint64_t>(bytes_max, block.size - at_));
      const auto bytes = std::span<const std::byte>(block.bytes).subspan(at_, size);
      at_ += size;
      return bytes;
    }
    {
      const std::lock_guard lock(mutex_);
      ++emptied_;
      holding_ = false;
    }
    changed_.notify_all();
  }
}

Result<std::size_t> ArchiveStream::read(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const std::span<const std::byte> bytes = TRY(take(out.size() - done));
    if (bytes.empty()) break;
    std::ranges::copy(bytes, out.begin() + static_cast<std::ptrdiff_t>(done));
    done += bytes.size();
  }
  return done;
}

Result<void> ArchiveStream::skip(std::uint64_t bytes) {
  while (bytes != 0) {
    const std::span<const std::byte> passed = TRY(take(bytes));
    if (passed.empty()) return failure(Errc::InvalidArgument, "the archive ends inside an entry");
    bytes -= passed.size();
  }
  return {};
}

Result<void> ArchiveStream::drain() {
  for (;;) {
    const std::span<const std::byte> passed = TRY(take(UINT64_MAX));
    if (passed.empty()) return {};
  }
}

std::uint64_t ArchiveStream::bytes_in() {
  const std::lock_guard lock(mutex_);
  return bytes_in_;
}

std::array<std::uint8_t, 32> ArchiveStream::digest() {
  const std::lock_guard lock(mutex_);
  return digest_;
}

}  // namespace caisson::layer
