#include "doors/grpc/frame.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace caisson::grpc {
namespace {

constexpr std::size_t kTimeoutDigitsMax = 8;

std::size_t length_at(std::string_view head) {
  std::size_t length = 0;
  for (std::size_t i = 1; i < kFrameHeadBytes; ++i)
    length = length << 8U | static_cast<unsigned char>(head[i]);
  return length;
}

}  // namespace

void MessageCutter::feed(std::string_view bytes) {
  if (fault_ == Fault::None) held_.append(bytes);
}

std::span<std::byte> MessageCutter::open(std::size_t bytes) {
  opened_ = bytes;
  held_.reserve(held_.size() + std::max(bytes, missing_));
  held_.resize(held_.size() + bytes);
  return std::as_writable_bytes(std::span(held_)).last(bytes);
}

void MessageCutter::close(std::size_t came) {
  held_.resize(held_.size() - (std::exchange(opened_, 0) - came));
}

std::optional<std::string> MessageCutter::next() {
  missing_ = 0;
  if (fault_ != Fault::None || held_.size() < kFrameHeadBytes) return std::nullopt;
  const auto flags = static_cast<unsigned char>(held_[0]);
  announced_ = length_at(held_);
  if (flags == kFlagCompressed) {
    fault_ = Fault::Compressed;
  } else if (flags != 0) {
    fault_ = Fault::Flags;
  } else if (announced_ > max_) {
    fault_ = Fault::TooLarge;
  }
  if (fault_ != Fault::None) {
    std::string().swap(held_);  // an assignment would keep its room
    return std::nullopt;
  }
  const std::size_t whole = kFrameHeadBytes + announced_;
  if (held_.size() < whole) {
    missing_ = whole - held_.size();
    return std::nullopt;
  }
  // Its bytes stay where they are: a second copy of them would be counted nowhere.
  std::string rest = held_.substr(whole);
  std::string message = std::exchange(held_, std::move(rest));
  message.resize(whole);
  message.erase(0, kFrameHeadBytes);
  return message;
}

std::size_t begin_frame(std::string& out) {
  const std::size_t begun = out.size();
  out.append(kFrameHeadBytes, '\0');
  return begun;
}

void end_frame(std::string& out, std::size_t begun, unsigned char flags) {
  std::size_t length = out.size() - begun - kFrameHeadBytes;
  out[begun] = static_cast<char>(flags);
  for (std::size_t i = kFrameHeadBytes; --i > 0;) {
    out[begun + i] = static_cast<char>(length & 0xFFU);
    length >>= 8U;
  }
}

void append_trailer_frame(std::string& out, const Trailers& trailers) {
  const std::size_t begun = begin_frame(out);
  for (const auto& [name, value] : trailers) out.append(name).append(": ").append(value) += "\r\n";
  end_frame(out, begun, kFlagTrailer);
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F && c != '%') {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
    }
  }
  return out;
}

namespace {

std::optional<std::int64_t> microseconds_in(char unit, std::int64_t value) {
  switch (unit) {
    case 'H':
      return value * 3'600'000'000;
    case 'M':
      return value * 60'000'000;
    case 'S':
      return value * 1'000'000;
    case 'm':
      return value * 1'000;
    case 'u':
      return value;
    case 'n':
      return (value + 999) / 1'000;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<std::int64_t> timeout_microseconds(std::string_view text) {
  if (text.size() < 2 || text.size() > kTimeoutDigitsMax + 1) return std::nullopt;
  std::int64_t value = 0;
  const std::string_view digits = text.substr(0, text.size() - 1);
  const auto [stopped, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (ec != std::errc{} || stopped != digits.end() || value < 0) return std::nullopt;
  const auto micros = microseconds_in(text.back(), value);
  if (!micros) return std::nullopt;
  return std::min(*micros, kTimeoutMicrosecondsMax);
}

}  // namespace caisson::grpc
