// http/connection.h — one client's connection: requests one after another, each an Exchange.
//
// The loop is run(): wait for a head, let the handler answer, drain what it left unread, again.
// Bytes that were read beyond the head stay in `in_`; they are the body or the next request.
// Sending tries the socket first and suspends only when it is full, which it rarely is.
//
// Deadlines: at most one is armed, in whole ticks of the server. The server's tick calls
// expire() when it has passed, which makes the waiting operation end; there is no timer here.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "http/chunk_decoder.h"
#include "http/http.h"
#include "http/request_head.h"
#include "http/response_head.h"
#include "http/server_core.h"

namespace caisson::http {

// What is left of a body that the handler did not read: so much is read away to keep the
// connection.
inline constexpr std::size_t kDrainBytesMax = 64UL * 1024;
// Before closing on a peer that still sends: a close with unread bytes would reset the connection
// and could take our last answer with it.
inline constexpr std::size_t kLingerBytesMax = 1024UL * 1024;
inline constexpr std::uint32_t kLingerSeconds = 2;
// A body makes progress when so much of it arrives within the stall time.
inline constexpr std::size_t kProgressBytesMin = 512;
// So much may pass without a look at other connections. An event with 32 KiB of output in it takes
// some tenths of a millisecond to make, and a neighbour's call waits for several such turns.
inline constexpr std::size_t kBurstBytesMax = 32UL * 1024;
inline constexpr std::size_t kReadBufferBytes = 4096;  // grows up to the limit of a head

// What a WebSocket shares with its connection: the socket lives in the former, deadlines and the
// server's stop are kept by the latter.
struct Wire {
  int fd = -1;                 // -1: closed
  std::uint64_t deadline = 0;  // a tick; 0: none
};

class Connection final : public Served, public Exchange {
 public:
  // `first` was read already, by whoever found out that this is HTTP/1.1.
  Connection(std::shared_ptr<ServerCore> core, std::shared_ptr<Seat> seat, Socket socket, Peer peer,
             std::string_view first = {});
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  Connection(Connection&&) = delete;
  Connection& operator=(Connection&&) = delete;

  awaitable<void> run();

  // From the server: the tick has moved; it stops; it cuts what is left.
  void on_tick() override;
  void on_stop() override;
  void cut() override;

  [[nodiscard]] const Request& request() const noexcept override { return request_; }
  awaitable<Result<std::size_t>> read_some(std::span<std::byte> out) override;
  void set(std::string_view name, std::string_view value) override;
  awaitable<void> respond(unsigned status, std::string_view content_type,
                          std::string body) override;
  awaitable<Result<void>> begin(unsigned status, std::string_view content_type,
                                std::optional<std::uint64_t> length) override;
  awaitable<Result<void>> write(std::span<const std::byte> bytes) override;
  awaitable<Result<void>> end() override;
  [[nodiscard]] bool begun() const noexcept override { return status_ != 0; }
  [[nodiscard]] unsigned status() const noexcept override { return status_; }
  void close_after() override { close_ = true; }
  awaitable<void> wait_for_hangup() override;
  awaitable<Result<std::unique_ptr<WebSocket>>> accept_websocket(
      std::string_view protocol) override;
  awaitable<Result<std::size_t>> raw_read(std::span<std::byte> out) override;
  awaitable<Result<void>> raw_write(std::span<const std::byte> bytes) override;

 private:
  enum class Phase : std::uint8_t { Idle, Head, Handler, Body, Answer, Linger, Switched };
  using Pieces = std::span<iovec>;

  // --- connection.cc
  awaitable<bool> next_request();
  awaitable<bool> fill_head();
  awaitable<void> handle_one();
  awaitable<void> answer_refusal(Refusal refusal);
  awaitable<void> linger();
  void start_request() noexcept;
  [[nodiscard]] bool reusable() const noexcept;
  void arm(Phase phase, std::uint32_t seconds) noexcept;
  void disarm(Phase phase) noexcept;
  void expire();

  // --- connection_read.cc
  [[nodiscard]] std::string_view buffered() const noexcept;
  void consume(std::size_t bytes) noexcept;
  void make_room(std::size_t capacity_max);
  awaitable<Result<void>> before_body();
  awaitable<Result<std::size_t>> read_sized(std::span<std::byte> out);
  awaitable<Result<std::size_t>> read_chunked(std::span<std::byte> out);
  awaitable<Result<std::size_t>> receive_body(std::span<std::byte> out);
  awaitable<bool> drain();
  [[nodiscard]] bool body_left() const noexcept { return request_.has_body && !body_done_; }
  [[nodiscard]] bool drainable() const noexcept;

  // --- connection_write.cc
  void make_head(unsigned status, std::string_view content_type, BodyKind kind,
                 std::uint64_t length);
  // True when all was sent; the pieces are moved on past what was.
  [[nodiscard]] bool send_now(Pieces& pieces) noexcept;
  awaitable<Result<void>> send(Pieces pieces);
  awaitable<void> breathe(std::size_t bytes);

  Socket socket_;
  std::shared_ptr<Wire> wire_;

  // What was received and not used: [in_begin_, in_end_) of in_.
  std::vector<char> in_;
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;

  HeadScanner scanner_;
  Request request_;
  Framing framing_;
  ChunkDecoder chunks_;
  std::uint64_t body_left_bytes_ = 0;
  bool body_done_ = false;
  bool continue_due_ = false;
  std::uint64_t stall_left_ = 0;  // ticks that the body may still keep us waiting
  std::size_t progress_ = 0;      // bytes since that was renewed

  std::vector<Field> fields_;
  std::string out_;  // the head in the making
  unsigned status_ = 0;
  BodyKind kind_ = BodyKind::None;
  std::uint64_t answer_left_ = 0;
  bool no_body_ = false;  // HEAD, 204, 304: nothing follows the head
  bool ended_ = false;
  bool close_ = false;
  bool broken_ = false;   // nothing more can be sent
  bool expired_ = false;  // the pending read was ended by its deadline
  bool hung_up_ = false;  // the peer has sent its end
  bool said_close_ = false;
  std::size_t burst_ = 0;
  Phase phase_ = Phase::Idle;
};

// websocket.cc: Beast's stream takes the socket over and answers the handshake.
awaitable<Result<std::unique_ptr<WebSocket>>> open_websocket(std::shared_ptr<ServerCore> core,
                                                             Socket socket,
                                                             std::shared_ptr<Wire> wire,
                                                             Request request, std::string protocol);

}  // namespace caisson::http
