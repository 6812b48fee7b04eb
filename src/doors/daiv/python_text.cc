#include "doors/daiv/python_text.h"

#include <algorithm>
#include <utility>

namespace caisson::daiv {
namespace {

unsigned char byte_of(char c) noexcept { return static_cast<unsigned char>(c); }

// Bytes that end a line, or may begin a character that does.
bool is_special(char c) noexcept {
  switch (byte_of(c)) {
    case '\n':
    case '\r':
    case '\v':
    case '\f':
    case 0x1C:
    case 0x1D:
    case 0x1E:
    case 0xC2:  // U+0085
    case 0xE2:  // U+2028, U+2029
      return true;
    default:
      return false;
  }
}

// The length of the line's end at the front of `text`; 0: none; -1: more must be seen.
int end_length(std::string_view text) noexcept {
  const unsigned char first = byte_of(text[0]);
  if (first != 0xC2 && first != 0xE2) return 1;
  if (text.size() < 2) return -1;
  if (first == 0xC2) return byte_of(text[1]) == 0x85 ? 2 : 0;
  if (byte_of(text[1]) != 0x80) return 0;
  if (text.size() < 3) return -1;
  const unsigned char third = byte_of(text[2]);
  return third == 0xA8 || third == 0xA9 ? 3 : 0;
}

}  // namespace

void LineWindow::put(std::string_view run) {
  // One byte too many tells that there was more.
  if (content_.size() > bytes_max_) return;
  content_.append(run.substr(0, bytes_max_ + 1 - content_.size()));
}

void LineWindow::open() {
  if (open_) return;
  open_ = true;
  if (!in_window()) return;
  if (kept_lines_ > 0) put("\n");
  ++kept_lines_;
}

void LineWindow::end_line() {
  open();
  open_ = false;
  ++lines_;
}

void LineWindow::text(std::string_view run) {
  if (run.empty()) return;
  open();
  if (in_window()) put(run);
}

void LineWindow::feed(std::string_view piece) {
  std::string joined;
  if (!begun_.empty()) {
    joined = std::exchange(begun_, {}) + std::string(piece);
    piece = joined;
  }
  while (!piece.empty()) {
    const auto at =
        static_cast<std::size_t>(std::ranges::find_if(piece, is_special) - piece.begin());
    if (at > 0) after_cr_ = false;
    text(piece.substr(0, at));
    piece.remove_prefix(at);
    if (piece.empty()) return;
    const int length = end_length(piece);
    if (length < 0) {
      begun_ = piece;
      return;
    }
    if (length == 0) {  // a character that only began like one
      after_cr_ = false;
      text(piece.substr(0, 1));
      piece.remove_prefix(1);
      continue;
    }
    const bool second_half = after_cr_ && piece.front() == '\n';
    after_cr_ = piece.front() == '\r';
    if (!second_half) end_line();
    piece.remove_prefix(static_cast<std::size_t>(length));
  }
}

void LineWindow::finish() {
  text(std::exchange(begun_, {}));
  if (open_) end_line();
}

}  // namespace caisson::daiv
