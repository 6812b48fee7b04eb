#include "guest/init/glob.h"

#include <string.h>

namespace caisson::init {
namespace {

// One character at the front of a text.
struct Char {
  uint32_t code;
  size_t size;
};

// A byte that is no UTF-8 counts as a character of its own, beyond all others.
Char char_at(const char* text, size_t size) {
  constexpr uint32_t kByteBase = 0x110000;
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t wanted = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  const Char alone{kByteBase + first, 1};
  if (first < 0xc2 || first > 0xf4 || size < wanted) return alone;
  uint32_t code = first & (0xffU >> (wanted + 1));
  for (size_t i = 1; i < wanted; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return alone;
    code = code << 6U | (byte(i) & 0x3fU);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast[wanted] || code > 0x10ffff || surrogate) return alone;
  return {code, wanted};
}

// The size of a set from its bracket to the closing one, or 0: it is not closed. A bracket that
// comes first is a member.
size_t set_size(const char* pattern, size_t size) {
  size_t at = 1;
  if (at < size && pattern[at] == '!') ++at;
  if (at < size && pattern[at] == ']') ++at;
  while (at < size && pattern[at] != ']') ++at;
  return at < size ? at + 1 : 0;
}

// `set` is what stands between the brackets. A range whose ends are the wrong way round is empty.
bool in_set(const char* set, size_t size, uint32_t code) {
  const bool negated = size > 0 && set[0] == '!';
  size_t at = negated ? 1 : 0;
  bool found = false;
  while (at < size) {
    const Char low = char_at(set + at, size - at);
    at += low.size;
    uint32_t high = low.code;
    if (at + 1 < size && set[at] == '-') {
      const Char end = char_at(set + at + 1, size - at - 1);
      high = end.code;
      at += 1 + end.size;
    }
    found = found || (code >= low.code && code <= high);
  }
  return found != negated;
}

// One character of the name by one element of the pattern. Gives the element's size, 0: no match.
size_t match_one(const char* pattern, size_t size, uint32_t code) {
  if (pattern[0] == '?') return 1;
  const size_t set = pattern[0] == '[' ? set_size(pattern, size) : 0;
  if (set != 0) return in_set(pattern + 1, set - 2, code) ? set : 0;
  const Char own = char_at(pattern, size);
  return own.code == code ? own.size : 0;
}

bool is_dots(const char* text, size_t size) {
  return (size == 1 && text[0] == '.') || (size == 2 && text[0] == '.' && text[1] == '.');
}

}  // namespace

bool glob_name(const char* pattern, const char* name) {
  return glob_name(pattern, strlen(pattern), name);
}

// After a mismatch only the last star can be read otherwise, so there is one place to go back to.
bool glob_name(const char* pattern, size_t pattern_size, const char* name) {
  const size_t name_size = strlen(name);
  constexpr size_t kNone = SIZE_MAX;
  size_t at = 0;
  size_t in_name = 0;
  size_t star = kNone;
  size_t star_name = 0;
  while (in_name < name_size) {
    if (at < pattern_size && pattern[at] == '*') {
      star = ++at;
      star_name = in_name;
      continue;
    }
    const Char next = char_at(name + in_name, name_size - in_name);
    const size_t used =
        at < pattern_size ? match_one(pattern + at, pattern_size - at, next.code) : 0;
    if (used != 0) {
      at += used;
      in_name += next.size;
      continue;
    }
    if (star == kNone) return false;
    star_name += char_at(name + star_name, name_size - star_name).size;
    in_name = star_name;
    at = star;
  }
  while (at < pattern_size && pattern[at] == '*') ++at;
  return at == pattern_size;
}

bool Glob::parse(const char* pattern) {
  count_ = 0;
  for (const char* at = pattern;;) {
    const char* end = strchrnul(at, '/');
    const size_t size = static_cast<size_t>(end - at);
    const bool any = size == 2 && at[0] == '*' && at[1] == '*';
    const bool again = any && count_ != 0 && parts_[count_ - 1].any;
    if (!again && count_ == kPartsMax) return false;
    if (!again) parts_[count_++] = Part{at, size, any};
    if (*end == '\0') return true;
    at = end + 1;
  }
}

// "**" with something behind it may stand for no name at all.
Glob::State Glob::closed(State state) const {
  for (size_t i = 0; i + 1 < count_; ++i) {
    if (parts_[i].any && (state >> i & 1U) != 0) state |= State{1} << (i + 1);
  }
  return state;
}

Glob::State Glob::step(State from, const char* name, bool& matches) const {
  State next = 0;
  matches = false;
  for (size_t i = 0; i < count_; ++i) {
    if ((from >> i & 1U) == 0) continue;
    const bool last = i + 1 == count_;
    if (parts_[i].any) {
      next |= State{1} << i;
      matches = matches || last;
    } else if (!is_dots(parts_[i].text, parts_[i].size) && parts_[i].size != 0 &&
               glob_name(parts_[i].text, parts_[i].size, name)) {
      matches = matches || last;
      if (!last) next |= State{1} << (i + 1);
    }
  }
  return closed(next);
}

}  // namespace caisson::init
