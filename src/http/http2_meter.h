// http/http2_meter.h — counts what an HTTP/2 peer can send for nothing, before anybody works on it.
// It reads only the nine bytes in front of each frame. Frames that carry a request or a body are
// paid for elsewhere: by windows and by the limit on streams. One that is so short, or padded so
// far, that it may carry nothing counts as if it did; each stream has one such frame for its end.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "http/http.h"

namespace caisson::http {

// So many frames in a second, after `full` at once. More may be saved up by earning them.
class Allowance {
 public:
  Allowance(std::uint64_t per_second, std::uint64_t full, std::uint64_t saved_max) noexcept
      : per_second_(per_second), full_(full), saved_max_(saved_max), left_(full) {}
  [[nodiscard]] bool take() noexcept {
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  void refill() noexcept {
    if (left_ < full_) left_ = std::min(left_ + per_second_, full_);
  }
  void earn(std::uint64_t more) noexcept { left_ = std::min(left_ + more, saved_max_); }

 private:
  std::uint64_t per_second_;
  std::uint64_t full_;
  std::uint64_t saved_max_;
  std::uint64_t left_;
};

class FrameMeter {
 public:
  explicit FrameMeter(const Limits& limits) noexcept;
  // The next bytes from the wire, the preface included. False: the peer has gone too far.
  [[nodiscard]] bool see(std::string_view bytes) noexcept;
  // A stream that had to be reset because of what the peer sent counts like a reset of its own:
  // both make work begin that nobody waits for.
  [[nodiscard]] bool fault() noexcept { return resets_.take(); }
  // What we send is a reason to send control frames: windows are opened again, and clients measure
  // the way with a ping as bytes arrive.
  void sent_frame(std::size_t bytes) noexcept;
  void on_tick() noexcept;
  // Nothing new is begun from now on: heads that come all the same carry nothing.
  void on_goodbye() noexcept { goodbye_ = true; }
  // Whether the head of a request has begun and is not whole, and how many heads were.
  [[nodiscard]] bool in_head() const noexcept { return in_head_; }
  [[nodiscard]] std::uint64_t heads() const noexcept { return heads_; }

 private:
  void frame_done() noexcept;
  [[nodiscard]] bool count(std::uint8_t type, std::uint8_t flags, std::size_t length) noexcept;
  [[nodiscard]] bool count_head(std::uint8_t flags) noexcept;
  [[nodiscard]] bool take_end() noexcept;

  static constexpr std::size_t kFrameHeadBytes = 9;
  Allowance resets_;
  Allowance control_;
  std::array<std::uint8_t, kFrameHeadBytes> head_{};
  std::size_t head_bytes_ = 0;
  std::size_t skip_;  // of the payload, or of the preface
  bool in_head_ = false;
  bool last_of_head_ = false;
  bool goodbye_ = false;
  std::uint32_t newest_ = 0;  // the highest number of a stream so far
  std::uint64_t ends_ = 0;    // streams that have begun, and whose ends have not come yet
  std::uint64_t heads_ = 0;
};

}  // namespace caisson::http
