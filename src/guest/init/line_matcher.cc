#include "guest/init/line_matcher.h"

#include <errno.h>
#include <string.h>

#include "guest/init/sys.h"

namespace caisson::init {

using wire::Step;

// One mapping for the pattern, the needle, and the run that the needle is found in.
LineMatcher::LineMatcher(OpChannel& channel, const char* pattern)
    : channel_(channel),
      pattern_(reinterpret_cast<char*>(map_unshared(3 * (wire::kPatternBytesMax + 1UL)))),
      needle_bytes_(pattern_ + wire::kPatternBytesMax + 1),
      text_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)),
      bytes_(newlocale(LC_CTYPE_MASK, "C", nullptr)) {
  if (pattern_ == nullptr || text_ == nullptr || bytes_ == nullptr) channel.fail(ENOMEM, Step::Io);
  const size_t size = strlen(pattern);
  for (size_t i = 0; i < size; ++i) pattern_[i] = pattern[i] == '\n' ? '|' : pattern[i];
  needle_ = grep_needle(pattern_, needle_bytes_);
  if (needle_.whole) return;
  for_text_ = is_utf8(pattern_, size);
  for_bytes_ = !for_text_;
  if (for_text_) compile(text_regex_, text_);
  if (for_bytes_) compile(byte_regex_, bytes_);
}

void LineMatcher::compile(regex_t& into, locale_t locale) {
  uselocale(locale);
  current_ = locale;
  const int failed = regcomp(&into, pattern_, REG_EXTENDED | REG_NOSUB);
  if (failed == REG_ESPACE) channel_.fail(EINVAL, Step::Pattern, "too large");
  if (failed == 0) return;
  char text[wire::kFailureTextMax];
  regerror(failed, &into, text, sizeof(text));
  channel_.fail(EINVAL, Step::Pattern, text);
}

char* LineMatcher::find_needle(char* begin, const char* end) const {
  return static_cast<char*>(
      memmem(begin, static_cast<size_t>(end - begin), needle_bytes_, needle_.size));
}

bool LineMatcher::run(const regex_t& regex, locale_t locale, const char* line) {
  if (current_ != locale) uselocale(locale);
  current_ = locale;
  const int result = regexec(&regex, line, 0, nullptr, 0);
  if (result == REG_ESPACE) channel_.fail(EINVAL, Step::Pattern, "too large");
  return result == 0;
}

bool LineMatcher::matches(char* line, size_t size) {
  if (needle_.whole) return true;
  const char kept = line[size];
  line[size] = '\0';
  bool found = false;
  if (for_text_ && is_utf8(line, size)) {
    found = run(text_regex_, text_, line);
  } else {
    if (!for_bytes_) compile(byte_regex_, bytes_);
    for_bytes_ = true;
    found = run(byte_regex_, bytes_, line);
  }
  line[size] = kept;
  return found;
}

}  // namespace caisson::init
