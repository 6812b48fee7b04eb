// http/http2_connection.h — one client's HTTP/2 connection: many requests at once, each an
// Http2Stream with a coroutine of its own.
//
// nghttp2 knows the protocol; it does no input or output. Bytes in: run() receives and feeds the
// session, whose callbacks (http2_callbacks.cc) fill streams. Bytes out: a stream submits a frame,
// pump() takes what the session has to say into `out_` as long as there is room, and flush() sends
// that. A flush is posted and not called, so that the frames of one answer leave in one piece.
//
// Inside the session's callbacks nothing may pump or feed, so no handler runs there: requests are
// noted and started afterwards, and whoever waits is woken by way of the executor.
//
// The session outlives the socket: streams whose handlers are still ending hold this object.
#pragma once

#include <nghttp2/nghttp2.h>

#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "http/http2_meter.h"
#include "http/http2_stream.h"
#include "http/server_core.h"

namespace caisson::http {

// What waits for the socket; a frame may begin while there is less.
inline constexpr std::size_t kOutBytesMax = 64UL * 1024;
// What one connection receives, or sends, before others have their turn.
inline constexpr std::size_t kTurnBytesMax = 64UL * 1024;
// Beyond a head's limit a 431 is due, which needs the rest to be read. From so many times the limit
// on it is an attack with few bytes that unpack into many.
inline constexpr std::size_t kHeadBombFactor = 4;

// Of the heads of all streams of a connection together. Names and values that the peer's table
// remembers cost it one byte each time, and us all of theirs.
inline constexpr std::size_t kHeadsBytesMax = 512UL * 1024;
// A stream and the coroutines that serve it, more or less: what it costs before a byte of it came.
inline constexpr std::size_t kStreamBytes = 8UL * 1024;

class Http2Connection final : public Served, public std::enable_shared_from_this<Http2Connection> {
 public:
  Http2Connection(std::shared_ptr<ServerCore> core, std::shared_ptr<Seat> seat, Socket socket,
                  Peer peer);
  ~Http2Connection() override;
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;
  Http2Connection(Http2Connection&&) = delete;
  Http2Connection& operator=(Http2Connection&&) = delete;

  // `first` begins with the preface. Returns when the connection has ended; handlers may still run.
  awaitable<void> run(std::string first);

  void on_tick() override;
  void on_stop() override;
  void cut() override;

  // --- for its streams
  [[nodiscard]] ServerCore& core() noexcept { return *core_; }
  [[nodiscard]] const Peer& peer() const noexcept { return peer_; }
  [[nodiscard]] nghttp2_session* session() noexcept { return session_.get(); }
  // Takes what the session has to say, as far as there is room.
  void pump();
  // Sends it, soon.
  void kick();
  // Whether the peer's end of the wire is full: then no stream is to blame for waiting.
  [[nodiscard]] bool blocked() const noexcept { return waiting_to_write_; }
  // A body that has come: false when there is no room for it.
  [[nodiscard]] bool hold_body(std::size_t bytes) noexcept;
  void give_back(std::int32_t stream, std::size_t bytes) noexcept;
  // One that is not kept.
  void pass_over(std::int32_t stream, std::size_t bytes) noexcept;
  // A head that has come, as much of it as is kept.
  [[nodiscard]] bool hold_head(std::size_t bytes) noexcept;
  void give_back_head(std::size_t bytes) noexcept;
  void stream_added() noexcept;
  void stream_removed() noexcept;

 private:
  friend struct Http2Callbacks;
  struct SessionEnd {
    void operator()(nghttp2_session* session) const noexcept { nghttp2_session_del(session); }
  };

  [[nodiscard]] bool open_session();
  void feed(std::string_view bytes);
  void watch_head() noexcept;
  void start_ready();
  awaitable<bool> receive();
  awaitable<void> linger();
  void flush();
  [[nodiscard]] bool send_some();
  void wait_writable();
  // The peer is told why, and nothing more is heard from it.
  void terminate(std::uint32_t code);
  void say_goodbye();
  void abandon_streams();
  [[nodiscard]] bool over() noexcept;
  [[nodiscard]] bool full() const noexcept { return out_.size() - out_begin_ >= kOutBytesMax; }
  // Whether one more stream may begin.
  [[nodiscard]] bool has_room() const noexcept;
  void append(std::string_view bytes);

  Socket socket_;
  Peer peer_;
  std::unique_ptr<nghttp2_session, SessionEnd> session_;
  FrameMeter meter_;
  // Those that the session knows; a handler may hold its stream longer.
  std::unordered_map<std::int32_t, std::shared_ptr<Http2Stream>> streams_;
  std::vector<std::shared_ptr<Http2Stream>> ready_;  // heads that came with the last bytes
  std::size_t streams_alive_ = 0;
  std::size_t heads_bytes_ = 0;  // of kHeadsBytesMax

  std::string out_;
  std::size_t out_begin_ = 0;
  boost::asio::steady_timer room_;  // cancelled when there is some in out_

  std::uint64_t head_deadline_ = 0;  // a tick: the head that has begun must be whole; 0: none
  std::uint64_t head_number_ = 0;    // which one
  std::size_t ignored_head_bytes_ = 0;
  std::uint64_t idle_since_;
  std::uint64_t linger_deadline_ = 0;
  std::uint32_t blocked_ticks_ = 0;
  std::size_t sent_slowly_ = 0;  // bytes since those were counted anew
  bool pumping_ = false;
  bool kicked_ = false;
  bool waiting_to_write_ = false;
  bool goodbye_said_ = false;
  bool deaf_ = false;    // what the peer still sends is dropped
  bool mute_ = false;    // all is said: streams that the session remembers may be gone
  bool broken_ = false;  // nothing more goes in or out
};

// http2_callbacks.cc: a session that calls `connection`; nothing when the heap is empty.
[[nodiscard]] nghttp2_session* make_http2_session(Http2Connection& connection);

}  // namespace caisson::http
