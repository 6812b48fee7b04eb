// control/interpreters/wire.h — what is said between the server and an interpreter of a sandbox.
//
// Frames on its standard input and output: size, kind, stream, 0 and id, 12 bytes little endian,
// then the payload. Everything that comes is hostile: a guest can write what it likes in its
// interpreter's place. So each size is bounded before anything of it is kept, each kind is known,
// JSON is parsed within a bounded memory, and what does not fit is a Protocol error, which ends the
// interpreter. Pure: no sockets, no clocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/code.h"

namespace caisson::control::interpreters {

inline constexpr std::size_t kHeadBytes = 12;
inline constexpr std::size_t kFrameBytesMax = 64UL * 1024;  // of what an interpreter says
// A parsed document takes more room than its text; so much may one take.
inline constexpr std::size_t kParsedBytesMax = 8 * kCodeResultBytesMax;
inline constexpr std::size_t kWarningsMax = kImportsMax;
inline constexpr std::size_t kTextBytesMax = 512UL * 1024;  // of a value, an error, a traceback

enum class Ask : std::uint8_t { Open = 1, Run, Interrupt, Kill, Close, Credit };
enum class Said : std::uint8_t { Hello = 1, Output, Part, Done, Opened, Closed };

struct Frame {
  Said kind = Said::Hello;
  std::uint8_t stream = 0;  // of Output: 1 or 2
  std::uint32_t id = 0;     // of a run; of a context with Opened and Closed
  std::string payload;

  friend bool operator==(const Frame&, const Frame&) = default;
};

// Bytes in any pieces become frames. It holds one frame and what came with its end.
class FrameReader {
 public:
  void feed(std::string_view bytes);
  // The next whole one; none: more must be fed. After an error it is of no more use.
  [[nodiscard]] Result<std::optional<Frame>> next();
  [[nodiscard]] std::size_t held() const noexcept { return held_.size() - begin_; }

 private:
  std::string held_;
  std::size_t begin_ = 0;
};

[[nodiscard]] std::string frame(Ask kind, std::uint32_t id, std::string_view payload);
[[nodiscard]] std::string credit_frame(std::uint32_t run, std::uint32_t out, std::uint32_t err);

struct Hello {
  std::string version;
  std::vector<std::string> warnings;
};
[[nodiscard]] Result<Hello> parse_hello(std::string_view text);

struct Done {
  int exit_code = 0;
  bool died = false;  // without an answer
  std::uint64_t out_lost = 0;
  std::uint64_t err_lost = 0;
  microseconds ran{0};
};
[[nodiscard]] Result<Done> parse_done(std::string_view text);

// Why a context could not be opened; none: it is.
[[nodiscard]] Result<std::optional<std::string>> parse_opened(std::string_view text);

// The answer of a run, put into the outcome.
[[nodiscard]] Result<void> parse_answer(std::string_view text, CodeOutcome& outcome);

}  // namespace caisson::control::interpreters
