#include "guest/init/grep_pattern.h"

#include <stdint.h>
#include <string.h>

namespace caisson::init {
namespace {

// Behind a bracket expression that begins at `at`, or null: it has no end.
const char* skip_brackets(const char* at) {
  ++at;
  if (*at == '^') ++at;
  if (*at == ']') ++at;
  while (*at != '\0' && *at != ']') {
    const char kind = at[1];
    if (*at == '[' && (kind == ':' || kind == '.' || kind == '=')) {
      at += 2;
      while (*at != '\0' && !(at[0] == kind && at[1] == ']')) ++at;
      if (*at == '\0') return nullptr;
      at += 2;
    } else {
      ++at;
    }
  }
  return *at == ']' ? at + 1 : nullptr;
}

// Behind a group that begins at `at`, or null.
const char* skip_group(const char* at) {
  int depth = 0;
  while (*at != '\0') {
    if (*at == '[') {
      at = skip_brackets(at);
      if (at == nullptr) return nullptr;
      continue;
    }
    if (*at == '\\' && at[1] != '\0')
      ++at;
    else if (*at == '(')
      ++depth;
    else if (*at == ')' && --depth == 0)
      return at + 1;
    ++at;
  }
  return nullptr;
}

bool is_quantifier(char byte) { return byte == '*' || byte == '+' || byte == '?' || byte == '{'; }

bool is_alnum(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z');
}

// What a backslash in front of it makes a plain character: no letter, no digit, no word's border.
bool is_escapable(char byte) {
  return byte > ' ' && byte < 0x7f && !is_alnum(byte) && strchr("<>`'", byte) == nullptr;
}

// Gathers runs and remembers the longest.
class Runs {
 public:
  Runs(char* out, char* run) : out_(out), run_(run) {}

  void add(char byte) { run_[size_++] = byte; }
  // The last character may be missing from a match: all its bytes go.
  void drop_last() {
    while (size_ > 0 && (static_cast<uint8_t>(run_[size_ - 1]) & 0xc0U) == 0x80) --size_;
    if (size_ > 0) --size_;
  }
  void end() {
    if (size_ > best_) {
      memcpy(out_, run_, size_);
      best_ = size_;
    }
    size_ = 0;
  }
  [[nodiscard]] size_t best() const { return best_; }

 private:
  char* out_;
  char* run_;
  size_t size_ = 0;
  size_t best_ = 0;
};

// Behind the quantifiers at `at`; says whether what they count may be missing.
const char* skip_quantifiers(const char* at, bool& optional) {
  optional = false;
  while (is_quantifier(*at)) {
    optional = optional || *at != '+';
    if (*at == '{') at = strchrnul(at, '}');
    if (*at != '\0') ++at;
  }
  return at;
}

}  // namespace

Needle grep_needle(const char* pattern, char* out) {
  const size_t size = strlen(pattern);
  Runs runs(out, out + size);
  bool whole = size != 0;
  for (const char* at = pattern; *at != '\0';) {
    if (*at == '|') return {};
    bool plain = false;
    if (*at == '\\' && is_escapable(at[1])) {
      runs.add(at[1]);
      at += 2;
      plain = true;
    } else if (*at == '\\' && at[1] == 'x') {
      return {};  // a character by its number, whose digits are not plain ones
    } else if (*at == '\\') {
      at += at[1] != '\0' ? 2 : 1;
    } else if (*at == '[') {
      at = skip_brackets(at);
    } else if (*at == '(') {
      at = skip_group(at);
    } else if (strchr(".^$){*+?", *at) != nullptr) {
      ++at;
    } else {
      runs.add(*at++);
      plain = true;
    }
    if (at == nullptr) return {};  // not a pattern at all
    const bool counted = is_quantifier(*at);
    whole = whole && plain && !counted;
    bool optional = false;
    if (counted) at = skip_quantifiers(at, optional);
    if (plain && optional) runs.drop_last();
    if (!plain || counted) runs.end();
  }
  runs.end();
  return {runs.best(), whole};
}

bool is_utf8(const char* text, size_t size) {
  const auto* at = reinterpret_cast<const uint8_t*>(text);
  const uint8_t* end = at + size;
  while (at < end) {
    const uint8_t first = *at++;
    if (first < 0x80) continue;
    if (first < 0xc2 || first > 0xf4) return false;
    const size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (static_cast<size_t>(end - at) < more) return false;
    // The second byte's range keeps out what has a shorter form, surrogates and what is too large.
    const uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (at[0] < low || at[0] > high) return false;
    for (size_t i = 1; i < more; ++i) {
      if ((at[i] & 0xc0U) != 0x80) return false;
    }
    at += more;
  }
  return true;
}

size_t cut_at(const char* text, size_t size, size_t most) {
  if (size <= most) return size;
  constexpr size_t kContinuationsMax = 3;
  size_t cut = most;
  while (cut > 0 && most - cut < kContinuationsMax &&
         (static_cast<uint8_t>(text[cut]) & 0xc0U) == 0x80)
    --cut;
  return (static_cast<uint8_t>(text[cut]) & 0xc0U) == 0x80 ? most : cut;
}

}  // namespace caisson::init
