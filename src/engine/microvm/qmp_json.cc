#include "engine/microvm/qmp_json.h"

#include <algorithm>

namespace caisson::engine::microvm {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // Goes over one value; false where it is none.
  bool value(std::size_t depth) {
    skip_space();
    if (at_ == text_.size() || depth > kJsonDepthMax) return false;
    switch (text_[at_]) {
      case '{':
        return members(depth, '}');
      case '[':
        return members(depth, ']');
      case '"':
        return string();
      default:
        return word();
    }
  }

  bool string() {
    if (!take('"')) return false;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c == '\\' && at_++ >= text_.size()) return false;
    }
    return false;
  }

  bool take(char wanted) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").contains(text_[at_])) ++at_;
  }

  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] bool done() {
    skip_space();
    return at_ == text_.size();
  }

 private:
  // What stands between brackets, with its names where they are braces.
  bool members(std::size_t depth, char end) {
    ++at_;
    if (take(end)) return true;
    for (;;) {
      if (end == '}' && (!string_here() || !take(':'))) return false;
      if (!value(depth + 1)) return false;
      if (take(end)) return true;
      if (!take(',')) return false;
    }
  }

  bool string_here() {
    skip_space();
    return string();
  }

  // A number, true, false or null.
  bool word() {
    const std::size_t begin = at_;
    const auto fits = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
             c == 'E';
    };
    while (at_ < text_.size() && fits(text_[at_])) ++at_;
    return at_ != begin;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::optional<std::string_view> member(std::string_view object, std::string_view key) {
  Scanner scan(object);
  if (!scan.take('{')) return std::nullopt;
  for (;;) {
    scan.skip_space();
    const std::size_t name = scan.at();
    if (!scan.string()) return std::nullopt;
    const std::string_view found = object.substr(name + 1, scan.at() - name - 2);
    if (!scan.take(':')) return std::nullopt;
    scan.skip_space();
    const std::size_t begin = scan.at();
    if (!scan.value(1)) return std::nullopt;
    if (found == key) return object.substr(begin, scan.at() - begin);
    if (!scan.take(',')) return std::nullopt;
  }
}

}  // namespace

bool is_json(std::string_view text) noexcept {
  Scanner scan(text);
  return scan.value(0) && scan.done();
}

std::optional<std::string_view> json_at(std::string_view text,
                                        std::span<const std::string_view> keys) {
  std::optional<std::string_view> value = text;
  for (const std::string_view key : keys) {
    value = member(*value, key);
    if (!value) return std::nullopt;
  }
  return value;
}

std::optional<std::string> json_string(std::string_view value) {
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') return std::nullopt;
  const std::string_view inside = value.substr(1, value.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] != '\\') {
      out += inside[i];
      continue;
    }
    if (++i == inside.size() || !std::string_view("\"\\/").contains(inside[i])) return std::nullopt;
    out += inside[i];
  }
  return out;
}

}  // namespace caisson::engine::microvm
