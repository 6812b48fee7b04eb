// doors/daiv/base64_stream.h — base64 in pieces, read as leniently as the original reads it: what
// is not in the alphabet is skipped, and only a wrong length or padding is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace caisson::daiv {

class Base64Stream {
 public:
  void feed(std::string_view text, std::string& out);
  // What is wrong with the whole, in the original's words.
  [[nodiscard]] std::optional<std::string> finish() const;

 private:
  std::uint64_t bytes_ = 0;  // decoded so far
  unsigned position_ = 0;    // within a group of four letters
  unsigned pads_ = 0;
  std::uint32_t left_ = 0;  // bits of the group that are no byte yet
  bool done_ = false;       // a whole padding ends it; what follows is not looked at
};

}  // namespace caisson::daiv
