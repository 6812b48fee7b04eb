#include "http/http2_meter.h"

#include <nghttp2/nghttp2.h>

#include "http/opening.h"

namespace caisson::http {
namespace {

constexpr std::uint64_t kEarnedFramesMax = 16384;
constexpr std::size_t kBytesPerFrameEarned = 1024;
constexpr std::size_t kDataBytesMin = 16;      // less may as well be nothing
constexpr std::size_t kPaddingBytesMax = 256;  // with the byte that says how many

}  // namespace

// All streams of a connection may be given up at once, by a client that ends.
FrameMeter::FrameMeter(const Limits& limits) noexcept
    : resets_(limits.h2_resets_per_second_max,
              std::uint64_t{limits.h2_resets_per_second_max} + limits.h2_streams_max, 0),
      control_(limits.h2_control_frames_per_second_max, limits.h2_control_frames_per_second_max,
               limits.h2_control_frames_per_second_max + kEarnedFramesMax),
      skip_(kHttp2Preface.size()) {}

void FrameMeter::on_tick() noexcept {
  resets_.refill();
  control_.refill();
}

void FrameMeter::sent_frame(std::size_t bytes) noexcept {
  control_.earn(1 + bytes / kBytesPerFrameEarned);
}

bool FrameMeter::count(std::uint8_t type, std::uint8_t flags, std::size_t length) noexcept {
  switch (type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_CONTINUATION:
      in_head_ = true;
      last_of_head_ = (flags & NGHTTP2_FLAG_END_HEADERS) != 0;
      return type == NGHTTP2_CONTINUATION || count_head(flags);
    case NGHTTP2_DATA: {
      const bool padded = (flags & NGHTTP2_FLAG_PADDED) != 0;
      const bool last = (flags & NGHTTP2_FLAG_END_STREAM) != 0;
      if (last && take_end()) return true;
      return length >= kDataBytesMin + (padded ? kPaddingBytesMax : 0) || control_.take();
    }
    case NGHTTP2_RST_STREAM:
      return resets_.take();
    default:
      return control_.take();
  }
}

bool FrameMeter::take_end() noexcept {
  if (ends_ == 0) return false;
  --ends_;
  return true;
}

// A head of a stream that is not new is its trailers, or is read for nothing.
bool FrameMeter::count_head(std::uint8_t flags) noexcept {
  std::uint32_t id = 0;
  for (std::size_t i = 5; i < kFrameHeadBytes; ++i) id = id << 8U | head_[i];
  id &= 0x7fffffffU;
  if (id <= newest_) return take_end() || control_.take();
  newest_ = id;
  if (goodbye_) return control_.take();
  if ((flags & NGHTTP2_FLAG_END_STREAM) == 0) ++ends_;
  return true;
}

void FrameMeter::frame_done() noexcept {
  if (!in_head_ || !last_of_head_) return;
  in_head_ = last_of_head_ = false;
  ++heads_;
}

bool FrameMeter::see(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    if (skip_ > 0) {
      const std::size_t skipped = std::min(skip_, bytes.size());
      skip_ -= skipped;
      bytes.remove_prefix(skipped);
      if (skip_ == 0) frame_done();
      continue;
    }
    head_[head_bytes_++] = static_cast<std::uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    if (head_bytes_ < kFrameHeadBytes) continue;
    head_bytes_ = 0;
    skip_ = std::size_t{head_[0]} << 16U | std::size_t{head_[1]} << 8U | std::size_t{head_[2]};
    if (!count(head_[3], head_[4], skip_)) return false;
    if (skip_ == 0) frame_done();
  }
  return true;
}

}  // namespace caisson::http
