#include "http/client_socket.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/uuid/detail/sha1.hpp>
#include <cerrno>
#include <span>

#include "base/base64.h"

namespace caisson::http {
namespace {

constexpr std::uint8_t kContinuation = 0;
constexpr std::uint8_t kText = 1;
constexpr std::uint8_t kBinary = 2;
constexpr std::uint8_t kClose = 8;
constexpr std::uint8_t kPing = 9;
constexpr std::uint8_t kPong = 10;
constexpr std::size_t kControlBytesMax = 125;
constexpr std::size_t kReadBytes = 64UL * 1024;
constexpr std::uint16_t kWithoutACode = 1005;
constexpr std::uint16_t kWithoutAWord = 1006;

std::uint8_t byte_at(std::string_view text, std::size_t at) noexcept {
  return static_cast<std::uint8_t>(text[at]);
}

std::unexpected<Error> broken(const char* what) {
  return failure(Errc::Protocol, std::string("WebSocket: ") + what);
}

}  // namespace

std::string websocket_accept(std::string_view key) {
  const std::string text = std::string(key) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  boost::uuids::detail::sha1 hash;
  hash.process_bytes(text.data(), text.size());
  boost::uuids::detail::sha1::digest_type words{};
  hash.get_digest(words);
  std::array<std::uint8_t, 20> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(words[i / 4] >> (24U - 8U * (i % 4)));
  }
  return to_base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Result<std::string> websocket_key() {
  std::array<std::uint8_t, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return sys_failure("getrandom", errno);
  }
  return to_base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Result<void> ClientSocket::put(std::uint8_t opcode, std::string_view payload) {
  if (waiting() + payload.size() > kClientQueueBytesMax) {
    return failure(Errc::Exhausted, "WebSocket: the server does not read; too much waits for it");
  }
  std::array<char, 4> mask{};
  if (::getrandom(mask.data(), mask.size(), 0) != static_cast<ssize_t>(mask.size())) {
    return sys_failure("getrandom", errno);
  }
  if (out_sent_ == out_.size()) {
    out_.clear();
    out_sent_ = 0;
  }
  out_.push_back(static_cast<char>(0x80U | opcode));
  const std::uint64_t size = payload.size();
  unsigned length_bytes = 0;
  if (size <= kControlBytesMax) {
    out_.push_back(static_cast<char>(0x80U | size));
  } else {
    length_bytes = size <= 0xffff ? 2 : 8;
    out_.push_back(static_cast<char>(0x80U | (length_bytes == 2 ? 126U : 127U)));
  }
  for (unsigned i = length_bytes; i > 0; --i) {
    out_.push_back(static_cast<char>((size >> (8U * (i - 1))) & 0xffU));
  }
  out_.append(mask.data(), mask.size());
  const std::size_t start = out_.size();
  out_.append(payload);
  for (std::size_t i = 0; i < payload.size(); ++i) {
    out_[start + i] = static_cast<char>(out_[start + i] ^ mask[i % 4]);
  }
  return flush();
}

Result<void> ClientSocket::send(std::string_view bytes, bool text) {
  if (closed() || said_close_) return failure(Errc::Gone, "WebSocket: closed");
  return put(text ? kText : kBinary, bytes);
}

Result<void> ClientSocket::flush() {
  while (waiting() > 0) {
    const ssize_t sent =
        ::send(fd_.get(), out_.data() + out_sent_, waiting(), MSG_NOSIGNAL | MSG_DONTWAIT);
    const int reason = errno;
    if (sent > 0) {
      out_sent_ += static_cast<std::size_t>(sent);
    } else if (reason == EAGAIN) {
      return {};
    } else if (reason != EINTR) {
      return sys_failure("WebSocket", reason);
    }
  }
  out_.clear();
  out_sent_ = 0;
  return {};
}

Result<bool> ClientSocket::fill() {
  in_.erase(0, used_);
  used_ = 0;
  const std::size_t have = in_.size();
  in_.resize(have + kReadBytes);
  const ssize_t got = ::recv(fd_.get(), in_.data() + have, kReadBytes, MSG_DONTWAIT);
  const int reason = errno;
  in_.resize(have + (got > 0 ? static_cast<std::size_t>(got) : 0));
  if (got > 0) return true;
  if (got < 0 && (reason == EAGAIN || reason == EINTR)) return false;
  close_code_ = kWithoutAWord;
  return false;
}

Result<std::optional<ClientSocket::Frame>> ClientSocket::frame() const {
  const std::string_view in = std::string_view(in_).substr(used_);
  if (in.size() < 2) return std::nullopt;
  Frame frame;
  frame.opcode = byte_at(in, 0) & 15U;
  frame.last = (byte_at(in, 0) & 0x80U) != 0;
  if ((byte_at(in, 0) & 0x70U) != 0) return broken("a reserved bit is set");
  if ((byte_at(in, 1) & 0x80U) != 0) return broken("the server masks its frames");
  std::uint64_t size = byte_at(in, 1) & 0x7fU;
  std::size_t head = 2;
  if (size > kControlBytesMax) {
    if (frame.opcode >= kClose) return broken("a control frame is too long");
    head += size == 126 ? 2 : 8;
    if (in.size() < head) return std::nullopt;
    size = 0;
    for (std::size_t i = 2; i < head; ++i) size = (size << 8U) | byte_at(in, i);
  }
  if (size > kClientMessageBytesMax) return broken("a message is too large");
  if (in.size() - head < size) return std::nullopt;
  frame.payload = in.substr(head, static_cast<std::size_t>(size));
  frame.size = head + static_cast<std::size_t>(size);
  return frame;
}

Result<void> ClientSocket::take_control(const Frame& frame) {
  if (!frame.last) return broken("a control frame in pieces");
  if (frame.opcode == kPong) return {};
  if (frame.opcode == kPing) return said_close_ ? Result<void>() : put(kPong, frame.payload);
  if (frame.opcode != kClose) return broken("an unknown kind of frame");
  close_code_ = kWithoutACode;
  if (frame.payload.size() >= 2) {
    close_code_ =
        static_cast<std::uint16_t>((byte_at(frame.payload, 0) << 8U) | byte_at(frame.payload, 1));
    close_reason_ = frame.payload.substr(2);
    if (close_code_ == 0) return broken("a close code of 0");
  }
  if (said_close_) return {};
  said_close_ = true;
  // The server may have gone already, which is what it wanted.
  (void)put(kClose, frame.payload.substr(0, 2));
  return {};
}

Result<std::optional<ClientSocket::Message>> ClientSocket::take(const Frame& frame) {
  if (frame.opcode >= kClose) {
    TRY(take_control(frame));
    return std::nullopt;
  }
  if (frame.opcode > kBinary) return broken("an unknown kind of frame");
  if ((frame.opcode == kContinuation) != in_message_) return broken("a frame out of order");
  if (!in_message_) {
    message_text_ = frame.opcode == kText;
    message_.clear();
  }
  if (message_.size() + frame.payload.size() > kClientMessageBytesMax) {
    return broken("a message is too large");
  }
  message_ += frame.payload;
  in_message_ = !frame.last;
  if (in_message_) return std::nullopt;
  return Message{message_text_, std::exchange(message_, {})};
}

Result<std::optional<ClientSocket::Message>> ClientSocket::next() {
  TRY(flush());
  while (!closed()) {
    const auto whole = TRY(frame());
    if (whole) {
      auto message = TRY(take(*whole));
      used_ += whole->size;
      if (message) return message;
    } else if (!TRY(fill())) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

Result<std::optional<ClientSocket::Message>> ClientSocket::wait(std::optional<int> timeout_ms) {
  for (;;) {
    auto message = TRY(next());
    if (message || closed()) return message;
    pollfd look{fd_.get(), static_cast<short>(waiting() > 0 ? POLLIN | POLLOUT : POLLIN), 0};
    const int ready = ::poll(&look, 1, timeout_ms.value_or(-1));
    const int reason = errno;
    if (ready == 0) return std::nullopt;
    if (ready < 0 && reason != EINTR) return sys_failure("poll", reason);
  }
}

Result<void> ClientSocket::close(std::uint16_t code, std::string_view reason) {
  if (said_close_ || closed()) return {};
  said_close_ = true;
  std::string payload;
  payload.push_back(static_cast<char>(code >> 8U));
  payload.push_back(static_cast<char>(code & 0xffU));
  payload += reason.substr(0, kControlBytesMax - 2);
  return put(kClose, payload);
}

}  // namespace caisson::http
