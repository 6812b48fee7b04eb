// doors/shared/text.h — text as programs in Python see it, for dialects whose first server was
// written in it: what decoding with errors="replace" gives, and how repr() shows a string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace caisson::doors {

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

[[nodiscard]] std::string python_repr(std::string_view text);

}  // namespace caisson::doors
