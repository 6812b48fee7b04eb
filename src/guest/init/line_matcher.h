// guest/init/line_matcher.h — asks one line after the other whether a regular expression is in it.
//
// The expression is compiled twice where that is needed: for text in UTF-8, where a character may
// be several bytes, and for lines that are none, where the library would see the end of the line.
#pragma once

#include <locale.h>
#include <regex.h>
#include <stddef.h>

#include "guest/init/grep_pattern.h"
#include "guest/init/op_child.h"

namespace caisson::init {

class LineMatcher {
 public:
  // A pattern that is none fails the operation. Its lines are alternatives, as grep has it.
  LineMatcher(OpChannel& channel, const char* pattern);

  // Plain bytes that every matching line has; 0: none are known.
  [[nodiscard]] size_t needle_size() const { return needle_.size; }
  // The first of them, or null.
  [[nodiscard]] char* find_needle(char* begin, const char* end) const;
  // A line that has the needle. `line[size]` may be written to, and is as it was afterwards.
  [[nodiscard]] bool matches(char* line, size_t size);

 private:
  void compile(regex_t& into, locale_t locale);
  bool run(const regex_t& regex, locale_t locale, const char* line);

  OpChannel& channel_;
  char* pattern_;  // ours: it has no newline any more
  char* needle_bytes_;
  Needle needle_;
  locale_t text_;
  locale_t bytes_;
  locale_t current_ = nullptr;
  bool for_text_ = false;   // text_regex_ is there
  bool for_bytes_ = false;  // byte_regex_ is there
  regex_t text_regex_{};
  regex_t byte_regex_{};
};

}  // namespace caisson::init
