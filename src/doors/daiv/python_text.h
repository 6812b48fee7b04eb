// doors/daiv/python_text.h — text as the original's language sees it: what decoding with
// errors="replace" gives, where splitlines() cuts, and how repr() shows a string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace caisson::daiv {

// UTF-8, byte by byte.
class Utf8Machine {
 public:
  enum class Step : std::uint8_t {
    Done,       // this byte ends a character
    More,       // it belongs to one that is not whole yet
    Bad,        // it cannot stand here, and nothing stood before it
    BadBefore,  // what stood before it is no character; the byte itself was not taken
  };
  Step take(unsigned char byte) noexcept;
  [[nodiscard]] bool whole() const noexcept { return left_ == 0; }

 private:
  unsigned left_ = 0;
  unsigned char low_ = 0x80;
  unsigned char high_ = 0xBF;
};

// Is it valid, in as many pieces as it comes?
class Utf8Check {
 public:
  bool feed(std::string_view bytes) noexcept;  // false from the first wrong byte on
  [[nodiscard]] bool good() const noexcept { return good_ && machine_.whole(); }
  [[nodiscard]] bool good_so_far() const noexcept { return good_; }

 private:
  Utf8Machine machine_;
  bool good_ = true;
};
[[nodiscard]] bool is_utf8(std::string_view bytes) noexcept;

// Each maximal part of what is no character becomes one U+FFFD.
class LossyUtf8 {
 public:
  void feed(std::string_view bytes, std::string& out);
  void finish(std::string& out);

 private:
  Utf8Machine machine_;
  std::string begun_;  // the bytes of a character that is not whole yet
};
[[nodiscard]] std::string lossy_utf8(std::string_view bytes);

// At most `bytes_max` bytes of valid UTF-8, never half a character.
[[nodiscard]] std::string_view cut_utf8(std::string_view text, std::size_t bytes_max) noexcept;
[[nodiscard]] std::size_t count_characters(std::string_view text) noexcept;

[[nodiscard]] std::string python_repr(std::string_view text);

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
