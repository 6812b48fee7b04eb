#include "doors/shared/text.h"

#include <fmt/format.h>

namespace caisson::doors {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

unsigned char byte_of(char c) noexcept { return static_cast<unsigned char>(c); }

bool is_tail(char c) noexcept { return (byte_of(c) & 0xC0U) == 0x80U; }

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

}  // namespace caisson::doors
