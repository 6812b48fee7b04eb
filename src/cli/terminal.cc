#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace caisson::cli {

WindowSize window_size(int fd) noexcept {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return {};
  return {size.ws_row, size.ws_col};
}

RawTerminal::RawTerminal(int fd) noexcept : fd_(fd) {
  termios now{};
  if (::tcgetattr(fd, &now) != 0) return;
  before_ = now;
  ::cfmakeraw(&now);
  (void)::tcsetattr(fd, TCSADRAIN, &now);
}

RawTerminal::~RawTerminal() {
  if (before_) (void)::tcsetattr(fd_, TCSADRAIN, &*before_);
}

}  // namespace caisson::cli
