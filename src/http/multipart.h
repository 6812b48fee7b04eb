// http/multipart.h — multipart/form-data as it arrives (RFC 7578): parts and their bytes, one event
// at a time, with nothing held but what could still be the beginning of a boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::http {

inline constexpr std::size_t kPartsMax = 64;                  // of one body, unless said otherwise
inline constexpr std::size_t kPartHeadBytesMax = 8UL * 1024;  // all header fields of a part
inline constexpr std::size_t kBoundaryBytesMax = 70;          // RFC 2046
inline constexpr std::size_t kPreambleBytesMax = 8UL * 1024;  // before the first boundary

// The boundary that a Content-Type names; nothing when it is not multipart/form-data or has none.
[[nodiscard]] std::optional<std::string> multipart_boundary(std::string_view content_type);

class Multipart {
 public:
  struct Event {
    enum class Kind : std::uint8_t {
      NeedMore,   // feed() it, or end() it
      PartBegin,  // name, filename
      Data,       // bytes, valid until the next call
      PartEnd,
      End,  // the closing boundary; what follows it is ignored
    };
    Kind kind = Kind::NeedMore;
    std::string name{};
    std::optional<std::string> filename{};
    std::string_view bytes{};
  };

  explicit Multipart(std::string boundary, std::size_t parts_max = kPartsMax)
      : delimiter_("\r\n--" + std::move(boundary)), parts_max_(parts_max) {
    // The first boundary needs no line before it.
    held_ = "\r\n";
  }

  // Only after NeedMore.
  void feed(std::string_view bytes) {
    held_.erase(0, taken_);
    taken_ = 0;
    held_ += bytes;
  }
  // InvalidArgument when it is malformed, TooLarge beyond a limit.
  [[nodiscard]] Result<Event> next();
  // The body is over: was it whole?
  [[nodiscard]] Result<void> finish() const;

 private:
  enum class State : std::uint8_t { Preamble, AfterBoundary, Head, Bytes, Done };
  Result<Event> next_preamble();
  Result<Event> next_after_boundary();
  Result<Event> next_head();
  Result<Event> next_bytes();
  [[nodiscard]] std::string_view rest() const noexcept {
    return std::string_view(held_).substr(taken_);
  }

  std::string delimiter_;
  std::string held_;
  std::size_t taken_ = 0;  // of held_
  State state_ = State::Preamble;
  std::size_t parts_max_;
  std::size_t parts_ = 0;
  std::size_t preamble_ = 0;
  bool first_ = false;  // the empty line after a head has not been taken yet
};

}  // namespace caisson::http
