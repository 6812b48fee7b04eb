#include "engine/microvm/lz4.h"

#include <fmt/format.h>

#include <cstring>

namespace caisson::engine::microvm {
namespace {

using View = std::span<const std::byte>;

constexpr std::size_t kMagicBytes = 4;
constexpr std::size_t kBlockBytesMax = 8UL << 20U;  // unpacked
constexpr std::size_t kPackedBlockMax = kBlockBytesMax + kBlockBytesMax / 255 + 16;
constexpr std::size_t kMatchMin = 4;
constexpr unsigned kLong = 15;  // a length that goes on in the bytes that follow

// One block: runs of literals, each followed by a copy of what came out before.
class Block {
 public:
  Block(View in, std::vector<std::byte>& out) : in_(in), out_(out), begin_(out.size()) {}

  // False where the bytes are no block.
  bool unpack() {
    while (at_ < in_.size()) {
      const unsigned token = std::to_integer<unsigned>(in_[at_++]);
      std::size_t literals = token >> 4U;
      if (!take_length(literals) || !copy_literals(literals)) return false;
      if (at_ == in_.size()) return true;  // the last run has no copy
      if (in_.size() - at_ < 2) return false;
      const std::size_t back =
          std::to_integer<std::size_t>(in_[at_]) | std::to_integer<std::size_t>(in_[at_ + 1]) << 8U;
      at_ += 2;
      std::size_t size = token & kLong;
      if (!take_length(size) || !copy_back(back, size + kMatchMin)) return false;
    }
    return false;
  }

 private:
  bool take_length(std::size_t& length) {
    if (length != kLong) return true;
    for (;;) {
      if (at_ == in_.size()) return false;
      const std::size_t more = std::to_integer<std::size_t>(in_[at_++]);
      length += more;
      if (more != 255) return true;
    }
  }

  [[nodiscard]] bool fits(std::size_t size) const {
    return size <= kBlockBytesMax - (out_.size() - begin_);
  }

  bool copy_literals(std::size_t size) {
    if (size > in_.size() - at_ || !fits(size)) return false;
    const auto from = in_.subspan(at_, size);
    out_.insert(out_.end(), from.begin(), from.end());
    at_ += size;
    return true;
  }

  // Source and target may overlap: the copy then repeats itself.
  bool copy_back(std::size_t back, std::size_t size) {
    if (back == 0 || back > out_.size() - begin_ || !fits(size)) return false;
    const std::size_t to = out_.size();
    out_.resize(to + size);
    std::byte* target = out_.data() + to;
    if (back >= size) {
      std::memcpy(target, target - back, size);
      return true;
    }
    for (std::size_t i = 0; i < size; ++i) target[i] = target[i - back];
    return true;
  }

  View in_;
  std::vector<std::byte>& out_;
  std::size_t begin_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::vector<std::byte>> from_lz4(View packed, std::size_t bytes_max) {
  std::vector<std::byte> out;
  if (packed.size() < kMagicBytes) return failure(Errc::InvalidArgument, "lz4: it is cut short");
  for (std::size_t at = kMagicBytes; packed.size() - at >= 4;) {
    std::uint32_t size = 0;
    std::memcpy(&size, packed.data() + at, sizeof(size));
    if (size == 0 || size > kPackedBlockMax || size > packed.size() - at - 4) break;
    if (!Block(packed.subspan(at + 4, size), out).unpack())
      return failure(Errc::InvalidArgument, "lz4: it is damaged");
    if (out.size() > bytes_max)
      return failure(Errc::TooLarge, fmt::format("it unpacks to more than {} bytes", bytes_max));
    at += 4 + size;
  }
  if (out.empty()) return failure(Errc::InvalidArgument, "lz4: there is no block in it");
  return out;
}

}  // namespace caisson::engine::microvm
