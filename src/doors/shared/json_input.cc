// The structure; strings are in json_input_text.cc.
#include "doors/shared/json_input.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <charconv>
#include <cmath>
#include <limits>

namespace caisson::doors {

namespace json = boost::json;

namespace {

constexpr std::string_view kMark = "\xEF\xBB\xBF";

bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_number_byte(char c) noexcept {
  return is_digit(c) || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
}

std::size_t digits_from(std::string_view text, std::size_t at) noexcept {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

// How much of `text` is a number: -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][-+]?[0-9]+)?
std::size_t number_length(std::string_view text, bool& whole) noexcept {
  whole = true;
  std::size_t at = text.starts_with('-') ? 1 : 0;
  if (at == text.size() || !is_digit(text[at])) return 0;
  at = text[at] == '0' ? at + 1 : digits_from(text, at);
  if (at < text.size() && text[at] == '.') {
    const std::size_t end = digits_from(text, at + 1);
    if (end > at + 1) {
      at = end;
      whole = false;
    }
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    std::size_t digits = at + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    const std::size_t end = digits_from(text, digits);
    if (end > digits) {
      at = end;
      whole = false;
    }
  }
  return at;
}

json::value number_of(std::string_view text, bool whole) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  if (whole) {
    std::int64_t number = 0;
    if (std::from_chars(begin, end, number).ec == std::errc{}) return number;
    std::uint64_t large = 0;
    if (std::from_chars(begin, end, large).ec == std::errc{}) return large;
  }
  double number = 0;
  const auto read = std::from_chars(begin, end, number);
  if (read.ec == std::errc::result_out_of_range) {
    // Too small is 0, too large is infinite; the exponent's sign tells.
    const bool tiny = text.find("e-") != text.npos || text.find("E-") != text.npos;
    number = tiny ? 0 : std::numeric_limits<double>::infinity();
    if (text.starts_with('-')) number = -number;
  }
  return number;
}

}  // namespace

bool JsonInput::wrong(std::string reason, std::uint64_t at) {
  status_ = Status::Wrong;
  reason_ = std::move(reason);
  fault_at_ = at;
  return false;
}

bool JsonInput::is_streamed() const noexcept {
  return !streamed_.empty() && levels_.size() == 1 && levels_[0].container.is_object() &&
         levels_[0].key == streamed_;
}

// A whole value, to where it belongs.
bool JsonInput::put(json::value value) {
  state_ = State::After;
  if (levels_.empty()) {
    root_ = std::move(value);
    whole_ = true;
    return true;
  }
  if (!limits_.keep) return true;
  Level& level = levels_.back();
  if (auto* array = level.container.if_array()) {
    array->push_back(std::move(value));
  } else {
    level.container.get_object()[level.key] = std::move(value);  // the last of a name counts
  }
  return true;
}

bool JsonInput::open(json::value container) {
  if (levels_.size() >= kDepthMax) return unreadable();
  state_ = container.is_object() ? State::FirstKey : State::FirstItem;
  levels_.push_back({std::move(container), {}});
  return true;
}

bool JsonInput::close() {
  json::value container = std::move(levels_.back().container);
  levels_.pop_back();
  return put(std::move(container));
}

bool JsonInput::step_value(char c) {
  begun_at_ = characters_;
  if (state_ == State::FirstItem && c == ']') return close();
  switch (c) {
    case '{':
      return open(json::object());
    case '[':
      return open(json::array());
    case '"':
      text_is_key_ = false;
      return begin_text();
    case 't':
      word_ = "true";
      break;
    case 'f':
      word_ = "false";
      break;
    case 'n':
      word_ = "null";
      break;
    case 'N':
      word_ = "NaN";
      break;
    case 'I':
      word_ = "Infinity";
      break;
    default:
      if (c != '-' && !is_digit(c)) return wrong("Expecting value", characters_);
      state_ = State::Number;
      token_ = c;
      return true;
  }
  state_ = State::Word;
  token_ = c;
  return true;
}

bool JsonInput::step_word(char c) {
  if (word_[token_.size()] != c) return wrong("Expecting value", begun_at_);
  token_ += c;
  if (token_.size() < word_.size()) return true;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (word_ == "true" || word_ == "false") return put(word_ == "true");
  if (word_ == "null") return put(nullptr);
  if (word_ == "NaN") return put(std::nan(""));
  return put(word_ == "Infinity" ? kInfinity : -kInfinity);
}

bool JsonInput::end_number() {
  bool whole = true;
  const std::size_t length = number_length(token_, whole);
  if (length == 0) return wrong("Expecting value", begun_at_);
  if (!put(number_of(std::string_view(token_).substr(0, length), whole))) return false;
  if (length == token_.size()) return true;
  // "01", "1.", "1e": a number, and then something that cannot follow it.
  return wrong(whole_ ? "Extra data" : "Expecting ',' delimiter", begun_at_ + length);
}

bool JsonInput::step_number(char c) {
  if (is_number_byte(c)) {
    if (token_.size() >= kNumberBytesMax) return unreadable();
    token_ += c;
    return true;
  }
  if (token_ == "-" && c == 'I') {
    state_ = State::Word;
    word_ = "-Infinity";
    token_ += c;
    return true;
  }
  return end_number() && step(c);
}

bool JsonInput::step_key(char c) {
  if (state_ == State::FirstKey && c == '}') return close();
  if (c != '"') return wrong("Expecting property name enclosed in double quotes", characters_);
  begun_at_ = characters_;
  text_is_key_ = true;
  return begin_text();
}

bool JsonInput::step_after(char c) {
  if (whole_) return wrong("Extra data", characters_);
  const bool object = levels_.back().container.is_object();
  if (c == (object ? '}' : ']')) return close();
  if (c != ',') return wrong("Expecting ',' delimiter", characters_);
  state_ = object ? State::Key : State::Value;
  return true;
}

// One byte outside of strings. False: it is over, see status_.
bool JsonInput::step(char c) {
  switch (state_) {
    case State::Word:
      return step_word(c);
    case State::Number:
      return step_number(c);
    default:
      break;
  }
  if (is_space(c)) return true;
  switch (state_) {
    case State::Value:
    case State::FirstItem:
      return step_value(c);
    case State::FirstKey:
    case State::Key:
      return step_key(c);
    case State::Colon:
      if (c != ':') return wrong("Expecting ':' delimiter", characters_);
      state_ = State::Value;
      return true;
    default:
      return step_after(c);
  }
}

JsonInput::Status JsonInput::feed(std::string_view bytes) {
  any_ = any_ || !bytes.empty();
  while (!bytes.empty() && mark_.size() < kMark.size() && characters_ == 0 &&
         bytes.front() == kMark[mark_.size()]) {
    mark_ += bytes.front();
    bytes.remove_prefix(1);
  }
  if (!bytes.empty() && !mark_.empty() && mark_.size() < kMark.size()) unreadable();
  while (!bytes.empty() && status_ == Status::Good) {
    if (state_ == State::Text) {
      bytes.remove_prefix(text_run(bytes));
      if (text_bytes_ > limits_.text_bytes_max && status_ == Status::Good)
        status_ = Status::TooLarge;
      continue;
    }
    const char c = bytes.front();
    bytes.remove_prefix(1);
    if (++other_bytes_ > limits_.other_bytes_max) {
      status_ = Status::TooLarge;
      break;
    }
    const auto utf8 = utf8_.take(static_cast<unsigned char>(c));
    if (utf8 == Utf8Machine::Step::Bad || utf8 == Utf8Machine::Step::BadBefore) {
      unreadable();
      break;
    }
    if (utf8 == Utf8Machine::Step::More) {
      (void)step(c);  // no character beyond ASCII can stand here: it says what is wrong
      break;
    }
    if (step(c)) ++characters_;
  }
  return status_;
}

JsonInput::Status JsonInput::finish() {
  if (status_ != Status::Good) return status_;
  if (!mark_.empty() && mark_.size() < kMark.size()) return unreadable(), status_;
  if (state_ == State::Number && !end_number()) return status_;
  switch (state_) {
    case State::Value:
    case State::FirstItem:
      wrong("Expecting value", characters_);
      break;
    case State::FirstKey:
    case State::Key:
      wrong("Expecting property name enclosed in double quotes", characters_);
      break;
    case State::Colon:
      wrong("Expecting ':' delimiter", characters_);
      break;
    case State::Text:
      if (!utf8_.whole()) {
        unreadable();
      } else if (escape_ == Escape::Unicode) {
        wrong("Invalid \\uXXXX escape", escape_at_ + 1);
      } else {
        wrong("Unterminated string starting at", begun_at_);
      }
      break;
    case State::Word:
      wrong("Expecting value", begun_at_);
      break;
    default:
      if (!whole_) wrong("Expecting ',' delimiter", characters_);
      break;
  }
  return status_;
}

}  // namespace caisson::doors
