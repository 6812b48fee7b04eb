// cli/terminal.h — the caller's terminal, while a guest's terminal is behind it.
#pragma once

#include <termios.h>

#include <cstdint>
#include <optional>

namespace caisson::cli {

struct WindowSize {
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
};
[[nodiscard]] WindowSize window_size(int fd) noexcept;

// Raw while it lives: every key goes to the guest's terminal, which does the editing and makes
// signals of ^C and ^Z. The old settings come back however we end, a kill -9 excepted.
class RawTerminal {
 public:
  explicit RawTerminal(int fd) noexcept;
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal();

 private:
  int fd_;
  std::optional<termios> before_;
};

}  // namespace caisson::cli
