// cli/client_pull_board.h — how far a pull is: a bar for each layer on a terminal, and elsewhere a
// line whenever a layer begins something new.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace caisson::cli {

inline constexpr std::size_t kPullRowsMax = 256;  // layers that are kept; no image has more

struct PullStep {
  std::string stage;  // "resolve", "download", "unpack"
  std::string layer;  // digest; empty: the image as a whole
  std::uint64_t done = 0;
  std::uint64_t total = 0;  // 0: not known
};

// "sha256:1b2c9d6cc0a1…" as "1b2c9d6cc0a1".
[[nodiscard]] std::string short_digest(const std::string& digest);

class PullBoard {
 public:
  // A line for who sees no bars; nothing when it says nothing new.
  std::optional<std::string> take(const PullStep& step);
  // One line for each layer that is not done, the oldest first, `height` at most; then how many
  // more there are.
  [[nodiscard]] std::vector<std::string> lines(std::size_t width, std::size_t height,
                                               double seconds) const;

 private:
  std::vector<PullStep> rows_;
};

// Draws a board on standard error, and takes it away at the end.
class PullScreen {
 public:
  explicit PullScreen(bool quiet);
  PullScreen(const PullScreen&) = delete;
  PullScreen& operator=(const PullScreen&) = delete;
  ~PullScreen();

  void take(const PullStep& step);

 private:
  void erase();

  PullBoard board_;
  bool quiet_;
  bool person_;
  std::size_t drawn_ = 0;  // lines
  TimePoint start_;
  TimePoint next_;
};

}  // namespace caisson::cli
