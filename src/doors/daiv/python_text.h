// doors/daiv/python_text.h — text as the original's language sees it: beside what other dialects
// need as well, where splitlines() cuts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "doors/shared/text.h"

namespace caisson::daiv {

using doors::cut_utf8;
using doors::is_utf8;
using doors::lossy_utf8;
using doors::LossyUtf8;
using doors::python_repr;
using doors::Utf8Check;
using doors::Utf8Machine;

// The lines [offset, offset + limit) of a text that comes in pieces, joined by '\n', and how many
// lines there are in all. Of the window at most `bytes_max` bytes and one more are kept.
class LineWindow {
 public:
  LineWindow(std::uint64_t offset, std::uint64_t limit, std::size_t bytes_max)
      : offset_(offset), limit_(limit), bytes_max_(bytes_max) {}
  void feed(std::string_view text);
  void finish();

  [[nodiscard]] std::uint64_t lines() const noexcept { return lines_; }
  [[nodiscard]] std::uint64_t kept_lines() const noexcept { return kept_lines_; }
  [[nodiscard]] const std::string& content() const noexcept { return content_; }
  [[nodiscard]] bool overflowed() const noexcept { return content_.size() > bytes_max_; }

 private:
  void text(std::string_view run);
  void open();
  void end_line();
  void put(std::string_view run);
  [[nodiscard]] bool in_window() const noexcept {
    return lines_ >= offset_ && lines_ - offset_ < limit_;
  }

  std::uint64_t offset_;
  std::uint64_t limit_;
  std::size_t bytes_max_;
  std::uint64_t lines_ = 0;
  std::uint64_t kept_lines_ = 0;
  bool open_ = false;
  bool after_cr_ = false;
  std::string begun_;  // of a terminator that takes more than one byte
  std::string content_;
};

}  // namespace caisson::daiv
