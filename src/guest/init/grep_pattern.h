// guest/init/grep_pattern.h — what can be said of an extended regular expression without running
// it. Looking for plain bytes is many times faster than asking the expression of every line, and
// most patterns have some that every match must hold. No system calls: tests run it on the host.
#pragma once

#include <stddef.h>

namespace caisson::init {

struct Needle {
  size_t size = 0;     // 0: there is none
  bool whole = false;  // the pattern is these bytes and nothing else
};

// The longest run of plain characters that is in every match, written to `out`, which is twice as
// large as the pattern: one half is for the run that is being read.
[[nodiscard]] Needle grep_needle(const char* pattern, char* out);

// As the C library's decoder sees it.
[[nodiscard]] bool is_utf8(const char* text, size_t size);

// Where to cut a text that is longer than `most`: not inside a character.
[[nodiscard]] size_t cut_at(const char* text, size_t size, size_t most);

}  // namespace caisson::init
