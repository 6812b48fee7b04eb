// doors/grpc/frame.h — how messages stand in a body, by gRPC and by gRPC-Web alike: one byte of
// flags, four of length, the message. gRPC-Web has its trailers in a last frame of the kind. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caisson::grpc {

inline constexpr std::size_t kFrameHeadBytes = 5;
inline constexpr unsigned char kFlagCompressed = 0x01;
inline constexpr unsigned char kFlagTrailer = 0x80;

// A body, as it comes, cut into messages. Holds one of them and what came with its end.
class MessageCutter {
 public:
  enum class Fault : std::uint8_t {
    None,
    TooLarge,    // see announced()
    Compressed,  // by a method that nobody offered
    Flags,       // that mean nothing
  };

  explicit MessageCutter(std::size_t message_bytes_max) : max_(message_bytes_max) {}

  void feed(std::string_view bytes);
  // The same without a copy: room for `bytes` more, of which close() says how many came.
  [[nodiscard]] std::span<std::byte> open(std::size_t bytes);
  void close(std::size_t came);
  // The next whole message. Nothing: more must be fed, or there is a fault.
  [[nodiscard]] std::optional<std::string> next();
  [[nodiscard]] Fault fault() const noexcept { return fault_; }
  // How long the message is that is being read, or was too large.
  [[nodiscard]] std::size_t announced() const noexcept { return announced_; }
  // Of the message that has begun, so much has not come; 0: its head is not there yet.
  [[nodiscard]] std::size_t missing() const noexcept { return missing_; }
  [[nodiscard]] std::size_t held() const noexcept { return held_.capacity(); }
  // A body must not end now.
  [[nodiscard]] bool half() const noexcept { return !held_.empty(); }

 private:
  std::size_t max_;
  std::string held_;
  std::size_t opened_ = 0;
  std::size_t announced_ = 0;
  std::size_t missing_ = 0;
  Fault fault_ = Fault::None;
};

// Room for a frame's head at the end of `out`; end_frame() writes it when the message stands there.
[[nodiscard]] std::size_t begin_frame(std::string& out);
void end_frame(std::string& out, std::size_t begun, unsigned char flags = 0);

using Trailers = std::vector<std::pair<std::string, std::string>>;
// The last frame of an answer by gRPC-Web.
void append_trailer_frame(std::string& out, const Trailers& trailers);

// grpc-message: what is not printable ASCII, and '%', as %XX.
[[nodiscard]] std::string percent_encode(std::string_view text);
// Ten years: what is longer means the same, and a clock's numbers end somewhere.
inline constexpr std::int64_t kTimeoutMicrosecondsMax = 10LL * 365 * 24 * 3600 * 1'000'000;
// grpc-timeout: at most eight digits and a unit. Nothing when it is something else.
[[nodiscard]] std::optional<std::int64_t> timeout_microseconds(std::string_view text);

}  // namespace caisson::grpc
