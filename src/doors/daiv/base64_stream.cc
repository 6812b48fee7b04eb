#include "doors/daiv/base64_stream.h"

#include <fmt/format.h>

#include <array>

namespace caisson::daiv {
namespace {

constexpr std::uint8_t kNone = 64;

constexpr std::array<std::uint8_t, 256> letters() {
  std::array<std::uint8_t, 256> out{};
  out.fill(kNone);
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    out[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  }
  return out;
}
constexpr auto kLetters = letters();

}  // namespace

void Base64Stream::feed(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (done_) return;
    if (c == '=') {
      if (position_ >= 2 && position_ + ++pads_ >= 4) done_ = true;
      continue;
    }
    const std::uint8_t value = kLetters[static_cast<unsigned char>(c)];
    if (value == kNone) continue;
    pads_ = 0;
    left_ = (left_ << 6U) | value;
    position_ = (position_ + 1) % 4;
    if (position_ == 1) continue;
    // 12 bits hold one byte and 4 bits more, 18 two and 2 more, 24 three.
    const unsigned spare = position_ == 2 ? 4 : position_ == 3 ? 2 : 0;
    out += static_cast<char>(static_cast<unsigned char>(left_ >> spare));
    left_ &= (1U << spare) - 1U;
    ++bytes_;
  }
}

std::optional<std::string> Base64Stream::finish() const {
  if (done_ || position_ == 0) return std::nullopt;
  if (position_ != 1) return "Incorrect padding";
  return fmt::format(
      "Invalid base64-encoded string: number of data characters ({}) cannot be 1 more than a "
      "multiple of 4",
      bytes_ / 3 * 4 + 1);
}

}  // namespace caisson::daiv
