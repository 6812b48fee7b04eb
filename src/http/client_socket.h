// http/client_socket.h — the client's end of a WebSocket (RFC 6455), for a poll loop: nothing here
// waits. Pings are answered inside; no extension is offered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::http {

inline constexpr std::size_t kClientMessageBytesMax = 16UL * 1024 * 1024;
inline constexpr std::size_t kClientQueueBytesMax = 16UL * 1024 * 1024;  // taken and not sent

class ClientSocket {
 public:
  struct Message {
    bool text = false;
    std::string bytes;
  };
  // A socket behind its handshake; `early` are the bytes that came with it.
  ClientSocket(UniqueFd fd, std::string early) : fd_(std::move(fd)), in_(std::move(early)) {}

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  // Takes it whole; it may not have left yet. Exhausted when too much waits already.
  [[nodiscard]] Result<void> send(std::string_view bytes, bool text);
  // Bytes that were taken and have not left: poll for POLLOUT then, and call flush().
  [[nodiscard]] std::size_t waiting() const noexcept { return out_.size() - out_sent_; }
  [[nodiscard]] Result<void> flush();
  // A whole message that is here already; nothing when there is none. Call until it says so before
  // polling again.
  [[nodiscard]] Result<std::optional<Message>> next();
  // next(), but waits: at most so long, or for ever. Nothing when the time is over or it is closed.
  [[nodiscard]] Result<std::optional<Message>> wait(std::optional<int> timeout_ms = std::nullopt);
  // The server has said goodbye or left; then 1005 is "without a code", 1006 "without a word".
  [[nodiscard]] bool closed() const noexcept { return close_code_ != 0; }
  [[nodiscard]] std::uint16_t close_code() const noexcept { return close_code_; }
  [[nodiscard]] const std::string& close_reason() const noexcept { return close_reason_; }
  // Says goodbye; the server's answer is then read by next().
  [[nodiscard]] Result<void> close(std::uint16_t code, std::string_view reason);

 private:
  struct Frame {
    std::uint8_t opcode = 0;
    bool last = false;
    std::string_view payload;
    std::size_t size = 0;  // with its head
  };
  [[nodiscard]] Result<void> put(std::uint8_t opcode, std::string_view payload);
  [[nodiscard]] Result<std::optional<Frame>> frame() const;
  [[nodiscard]] Result<std::optional<Message>> take(const Frame& frame);
  [[nodiscard]] Result<void> take_control(const Frame& frame);
  // False: nothing more is there now.
  [[nodiscard]] Result<bool> fill();

  UniqueFd fd_;
  std::string in_;
  std::size_t used_ = 0;  // of in_
  std::string out_;
  std::size_t out_sent_ = 0;
  std::string message_;
  bool in_message_ = false;
  bool message_text_ = false;
  bool said_close_ = false;
  std::uint16_t close_code_ = 0;
  std::string close_reason_;
};

// The value of Sec-WebSocket-Accept that answers `key`.
[[nodiscard]] std::string websocket_accept(std::string_view key);
// A fresh Sec-WebSocket-Key.
[[nodiscard]] Result<std::string> websocket_key();

}  // namespace caisson::http
