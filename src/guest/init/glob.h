// guest/init/glob.h — patterns for names, as Python's glob.translate(recursive=True,
// include_hidden=True) reads them, matched part by part. No system calls: tests run it on the host.
//
//   *  ?         within one name, dots included; a `?` is one character, not one byte
//   [abc] [!a-c] one character; an unclosed [ is itself
//   **           as a whole part: any number of names, at the end at least one
//
// Nothing else is special: no braces, no backslash. A part that no name can be (empty, "." or "..")
// makes a pattern that matches nothing.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace caisson::init {

// Whether the pattern, which has no slash, is the whole name's.
[[nodiscard]] bool glob_name(const char* pattern, const char* name);
[[nodiscard]] bool glob_name(const char* pattern, size_t pattern_size, const char* name);

class Glob {
 public:
  static constexpr size_t kPartsMax = 63;

  // Which parts may be next, one bit each; 0: nothing further down can match.
  using State = uint64_t;

  // `pattern` stays the caller's. False: more than kPartsMax parts.
  bool parse(const char* pattern);
  [[nodiscard]] State begin() const { return closed(1); }
  // One name down. `matches`: the path up to this name does.
  State step(State from, const char* name, bool& matches) const;

 private:
  struct Part {
    const char* text;
    size_t size;
    bool any;  // "**"
  };
  [[nodiscard]] State closed(State state) const;

  Part parts_[kPartsMax] = {};
  size_t count_ = 0;
};

}  // namespace caisson::init
