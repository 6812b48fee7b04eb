#include "doors/daiv/python_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace caisson::daiv {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

unsigned char byte_of(char c) noexcept { return static_cast<unsigned char>(c); }

bool is_tail(char c) noexcept { return (byte_of(c) & 0xC0U) == 0x80U; }

// Bytes that end a line, or may begin a character that does.
bool is_special(char c) noexcept {
  switch (byte_of(c)) {
    case '\n':
    case '\r':
    case '\v':
    case '\f':
    case 0x1C:
    case 0x1D:
    case 0x1E:
    case 0xC2:  // U+0085
    case 0xE2:  // U+2028, U+2029
      return true;
    default:
      return false;
  }
}

// The length of the line's end at the front of `text`; 0: none; -1: more must be seen.
int end_length(std::string_view text) noexcept {
  const unsigned char first = byte_of(text[0]);
  if (first != 0xC2 && first != 0xE2) return 1;
  if (text.size() < 2) return -1;
  if (first == 0xC2) return byte_of(text[1]) == 0x85 ? 2 : 0;
  if (byte_of(text[1]) != 0x80) return 0;
  if (text.size() < 3) return -1;
  const unsigned char third = byte_of(text[2]);
  return third == 0xA8 || third == 0xA9 ? 3 : 0;
}

}  // namespace

Utf8Machine::Step Utf8Machine::take(unsigned char byte) noexcept {
  if (left_ > 0) {
    if (byte < low_ || byte > high_) {
      left_ = 0;
      return Step::BadBefore;
    }
    low_ = 0x80;
    high_ = 0xBF;
    return --left_ == 0 ? Step::Done : Step::More;
  }
  low_ = 0x80;
  high_ = 0xBF;
  if (byte < 0x80) return Step::Done;
  if (byte < 0xC2 || byte > 0xF4) return Step::Bad;
  left_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  // No overlong forms, no surrogates, nothing beyond U+10FFFF.
  if (byte == 0xE0) low_ = 0xA0;
  if (byte == 0xED) high_ = 0x9F;
  if (byte == 0xF0) low_ = 0x90;
  if (byte == 0xF4) high_ = 0x8F;
  return Step::More;
}

bool Utf8Check::feed(std::string_view bytes) noexcept {
  for (const char c : bytes) {
    if (!good_) return false;
    if (byte_of(c) < 0x80 && machine_.whole()) continue;
    const auto step = machine_.take(byte_of(c));
    good_ = step == Utf8Machine::Step::Done || step == Utf8Machine::Step::More;
  }
  return good_;
}

bool is_utf8(std::string_view bytes) noexcept {
  Utf8Check check;
  check.feed(bytes);
  return check.good();
}

void LossyUtf8::feed(std::string_view bytes, std::string& out) {
  for (std::size_t at = 0; at < bytes.size();) {
    if (machine_.whole()) {
      std::size_t end = at;
      while (end < bytes.size() && byte_of(bytes[end]) < 0x80) ++end;
      out.append(bytes.substr(at, end - at));
      at = end;
      if (at == bytes.size()) return;
    }
    switch (machine_.take(byte_of(bytes[at]))) {
      case Utf8Machine::Step::Done:
        out += begun_;
        out += bytes[at++];
        begun_.clear();
        break;
      case Utf8Machine::Step::More:
        begun_ += bytes[at++];
        break;
      case Utf8Machine::Step::Bad:
        out += kReplacement;
        ++at;
        break;
      case Utf8Machine::Step::BadBefore:
        out += kReplacement;
        begun_.clear();
        break;
    }
  }
}

void LossyUtf8::finish(std::string& out) {
  if (!begun_.empty()) out += kReplacement;
  begun_.clear();
  machine_ = {};
}

std::string lossy_utf8(std::string_view bytes) {
  std::string out;
  LossyUtf8 decoder;
  decoder.feed(bytes, out);
  decoder.finish(out);
  return out;
}

std::string_view cut_utf8(std::string_view text, std::size_t bytes_max) noexcept {
  if (text.size() <= bytes_max) return text;
  while (bytes_max > 0 && is_tail(text[bytes_max])) --bytes_max;
  return text.substr(0, bytes_max);
}

std::size_t count_characters(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return !is_tail(c); }));
}

std::string python_repr(std::string_view text) {
  const bool use_double =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = use_double ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte_of(c) < 0x20 || byte_of(c) == 0x7F) {
      out += fmt::format("\\x{:02x}", byte_of(c));
    } else {
      out += c;
    }
  }
  out += quote;
  return out;
}

void LineWindow::put(std::string_view run) {
  // One byte too many tells that there was more.
  if (content_.size() > bytes_max_) return;
  content_.append(run.substr(0, bytes_max_ + 1 - content_.size()));
}

void LineWindow::open() {
  if (open_) return;
  open_ = true;
  if (!in_window()) return;
  if (kept_lines_ > 0) put("\n");
  ++kept_lines_;
}

void LineWindow::end_line() {
  open();
  open_ = false;
  ++lines_;
}

void LineWindow::text(std::string_view run) {
  if (run.empty()) return;
  open();
  if (in_window()) put(run);
}

void LineWindow::feed(std::string_view piece) {
  std::string joined;
  if (!begun_.empty()) {
    joined = std::exchange(begun_, {}) + std::string(piece);
    piece = joined;
  }
  while (!piece.empty()) {
    const auto at =
        static_cast<std::size_t>(std::ranges::find_if(piece, is_special) - piece.begin());
    if (at > 0) after_cr_ = false;
    text(piece.substr(0, at));
    piece.remove_prefix(at);
    if (piece.empty()) return;
    const int length = end_length(piece);
    if (length < 0) {
      begun_ = piece;
      return;
    }
    if (length == 0) {  // a character that only began like one
      after_cr_ = false;
      text(piece.substr(0, 1));
      piece.remove_prefix(1);
      continue;
    }
    const bool second_half = after_cr_ && piece.front() == '\n';
    after_cr_ = piece.front() == '\r';
    if (!second_half) end_line();
    piece.remove_prefix(static_cast<std::size_t>(length));
  }
}

void LineWindow::finish() {
  text(std::exchange(begun_, {}));
  if (open_) end_line();
}

}  // namespace caisson::daiv
