// Strings: the bulk of a body, so plain bytes are taken in runs.
#include <array>
#include <boost/json/string.hpp>

#include "doors/shared/json_input.h"

namespace caisson::doors {

namespace json = boost::json;

namespace {

constexpr std::array<bool, 256> plain_bytes() {
  std::array<bool, 256> out{};
  for (std::size_t i = 0x20; i < 0x80; ++i) out[i] = true;
  out['"'] = out['\\'] = false;
  return out;
}
constexpr auto kPlain = plain_bytes();

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char escaped(char c) noexcept {
  switch (c) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case '"':
    case '\\':
    case '/':
      return c;
    default:
      return '\0';
  }
}

}  // namespace

bool JsonInput::begin_text() {
  state_ = State::Text;
  text_.clear();
  escape_ = Escape::None;
  high_ = 0;
  handing_on_ = !text_is_key_ && is_streamed();
  if (handing_on_) {
    fresh_ = true;
    piece_.clear();
  }
  return true;
}

void JsonInput::put_text(std::string_view run) {
  if (!limits_.keep) return;
  if (!handing_on_) {
    text_ += run;
    return;
  }
  piece_ += run;
  if (text_.size() < kEchoBytesMax) text_ += run.substr(0, kEchoBytesMax - text_.size());
}

void JsonInput::put_code(std::uint32_t code) {
  const auto byte = [](std::uint32_t bits) {
    return static_cast<char>(static_cast<unsigned char>(bits));
  };
  std::string out;
  if (code < 0x80) {
    out += byte(code);
  } else if (code < 0x800) {
    out += byte(0xC0U | (code >> 6U));
    out += byte(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    out += byte(0xE0U | (code >> 12U));
    out += byte(0x80U | ((code >> 6U) & 0x3FU));
    out += byte(0x80U | (code & 0x3FU));
  } else {
    out += byte(0xF0U | (code >> 18U));
    out += byte(0x80U | ((code >> 12U) & 0x3FU));
    out += byte(0x80U | ((code >> 6U) & 0x3FU));
    out += byte(0x80U | (code & 0x3FU));
  }
  put_text(out);
}

// Takes at least one byte, and says how many.
std::size_t JsonInput::text_run(std::string_view bytes) {
  std::size_t run = 0;
  if (escape_ == Escape::None && high_ == 0 && utf8_.whole()) {
    while (run < bytes.size() && kPlain[static_cast<unsigned char>(bytes[run])]) ++run;
  }
  if (run > 0) {
    put_text(bytes.substr(0, run));
    characters_ += run;
    if (!handing_on_) text_bytes_ += run;
    return run;
  }
  if (!handing_on_) ++text_bytes_;
  const char c = bytes.front();
  const bool begins = utf8_.whole();
  const auto utf8 = utf8_.take(static_cast<unsigned char>(c));
  if (utf8 == Utf8Machine::Step::Bad || utf8 == Utf8Machine::Step::BadBefore) {
    unreadable();
    return 1;
  }
  if (step_text(c) && begins) ++characters_;
  return 1;
}

bool JsonInput::step_text(char c) {
  if (escape_ == Escape::Begun) return step_escape(c);
  if (escape_ == Escape::Unicode) return step_unicode(c);
  if (c == '\\') {
    escape_ = Escape::Begun;
    escape_at_ = characters_;
    return true;
  }
  if (high_ != 0) return unreadable();
  if (c == '"') return end_text();
  if (static_cast<unsigned char>(c) < 0x20)
    return wrong("Invalid control character at", characters_);
  put_text({&c, 1});
  return true;
}

bool JsonInput::step_escape(char c) {
  if (c == 'u') {
    escape_ = Escape::Unicode;
    digits_ = 0;
    code_ = 0;
    return true;
  }
  const char meant = escaped(c);
  if (meant == '\0') return wrong("Invalid \\escape", escape_at_);
  if (high_ != 0) return unreadable();
  escape_ = Escape::None;
  put_text({&meant, 1});
  return true;
}

bool JsonInput::step_unicode(char c) {
  const int value = hex_value(c);
  if (value < 0) return wrong("Invalid \\uXXXX escape", escape_at_ + 1);
  code_ = (code_ << 4U) | static_cast<std::uint32_t>(value);
  if (++digits_ < 4) return true;
  escape_ = Escape::None;
  const bool low = code_ >= 0xDC00 && code_ <= 0xDFFF;
  // Half a pair is no text that a file or a command could hold.
  if ((high_ != 0) != low) return unreadable();
  if (code_ >= 0xD800 && code_ <= 0xDBFF) {
    high_ = code_;
    return true;
  }
  if (low) code_ = 0x10000 + ((high_ - 0xD800) << 10U) + (code_ - 0xDC00);
  high_ = 0;
  put_code(code_);
  return true;
}

bool JsonInput::end_text() {
  if (text_is_key_) {
    levels_.back().key = std::move(text_);
    state_ = State::Colon;
    return true;
  }
  // Where the copy of a text that was handed on is cut, half a character may stand.
  return put(json::string(handing_on_ ? lossy_utf8(text_) : text_));
}

}  // namespace caisson::doors
