// http/http2_stream.h — one request of an HTTP/2 connection and its answer.
//
// A body that arrives waits in `body_` until it is read: only then the peer may send more, so the
// windows bound what is held. An answer is not stored at all: write() shows its bytes to the
// session, which copies them into the connection's output as windows and room allow.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/http.h"
#include "http/request_head.h"

namespace caisson::http {

class Http2Connection;

class Http2Stream final : public Exchange {
 public:
  Http2Stream(std::shared_ptr<Http2Connection> connection, std::int32_t id);
  ~Http2Stream() override;
  Http2Stream(const Http2Stream&) = delete;
  Http2Stream& operator=(const Http2Stream&) = delete;
  Http2Stream(Http2Stream&&) = delete;
  Http2Stream& operator=(Http2Stream&&) = delete;

  // The coroutine of one request: lets the handler answer, and answers where it did not.
  static awaitable<void> serve(std::shared_ptr<Http2Stream> self);

  [[nodiscard]] const Request& request() const noexcept override { return request_; }
  awaitable<Result<std::size_t>> read_some(std::span<std::byte> out) override;
  void set(std::string_view name, std::string_view value) override;
  awaitable<void> respond(unsigned status, std::string_view content_type,
                          std::string body) override;
  awaitable<Result<void>> begin(unsigned status, std::string_view content_type,
                                std::optional<std::uint64_t> length) override;
  awaitable<Result<void>> write(std::span<const std::byte> bytes) override;
  awaitable<Result<void>> end() override;
  void set_trailer(std::string_view name, std::string_view value) override;
  [[nodiscard]] bool http2() const noexcept override { return true; }
  [[nodiscard]] bool begun() const noexcept override { return status_ != 0; }
  [[nodiscard]] unsigned status() const noexcept override { return status_; }
  // Frames have lengths: one bad body does not spoil what follows on the connection.
  void close_after() override {}
  void cut() override;
  awaitable<void> wait_for_hangup() override;
  awaitable<Result<std::unique_ptr<WebSocket>>> accept_websocket(std::string_view) override;
  awaitable<Result<std::size_t>> raw_read(std::span<std::byte>) override;
  awaitable<Result<void>> raw_write(std::span<const std::byte>) override;

  // --- from the connection. Called inside the session's callbacks: none of them sends.
  // False: far more than a head may be.
  [[nodiscard]] bool add_field(std::string_view name, std::string_view value);
  void end_head(bool body_follows);
  void begin_trailers() noexcept { in_trailers_ = true; }
  void add_body(std::string_view bytes);
  void end_body();
  void answer_sent() noexcept { answer_sent_ = true; }
  void closed();   // the session has forgotten it
  void abandon();  // it, or the whole connection, ended before its time
  void on_tick();
  [[nodiscard]] boost::asio::any_io_executor executor() { return hung_up_.get_executor(); }
  [[nodiscard]] bool body_ended() const noexcept { return body_ended_; }
  [[nodiscard]] bool gone() const noexcept { return gone_; }
  // What write() has to offer, and that so much of it was taken.
  [[nodiscard]] std::span<const std::byte> offered() const noexcept { return offered_; }
  void took(std::size_t bytes);

 private:
  enum class Last : std::uint8_t { No, Yes };
  class Offer;

  [[nodiscard]] std::expected<void, Refusal> place_host();
  [[nodiscard]] bool keep_head(std::size_t bytes);
  void send_continue();
  [[nodiscard]] bool send_head(unsigned status, std::string_view content_type,
                               std::optional<std::uint64_t> length, Last last);
  [[nodiscard]] bool send_trailers();
  awaitable<Result<void>> send_body(std::span<const std::byte> bytes, Last last);
  awaitable<bool> wait(boost::asio::steady_timer& event);
  awaitable<void> breathe(std::size_t bytes);
  awaitable<void> answer_failure(bool thrown);
  void reset(std::uint32_t code);
  void wake();
  void drop_body();
  void read_no_more();

  std::shared_ptr<Http2Connection> connection_;
  std::int32_t id_;

  Request request_;
  std::string authority_;
  std::size_t head_bytes_ = 0;
  std::size_t head_fields_ = 0;
  std::size_t head_held_ = 0;  // of them, what is kept here
  bool in_trailers_ = false;
  bool continue_due_ = false;
  std::optional<Refusal> refusal_;

  std::string body_;  // [body_begin_, end) was not read yet
  std::size_t body_begin_ = 0;
  bool body_ended_ = false;
  bool unread_ = false;  // nobody will read it: what comes is dropped
  bool reading_ = false;
  bool read_late_ = false;
  std::uint64_t stall_left_;
  std::size_t progress_ = 0;

  std::vector<Field> fields_;
  std::vector<Field> trailers_;
  unsigned status_ = 0;
  std::optional<std::uint64_t> answer_left_;
  bool no_body_ = false;
  bool ended_ = false;
  bool answer_sent_ = false;  // to its end
  std::span<const std::byte> offered_;
  bool write_late_ = false;
  std::uint32_t shut_ticks_ = 0;
  std::size_t taken_slowly_ = 0;  // bytes since those were counted anew
  std::size_t burst_ = 0;

  bool gone_ = false;
  bool closed_ = false;
  boost::asio::steady_timer readable_;
  boost::asio::steady_timer writable_;
  boost::asio::steady_timer hung_up_;
};

}  // namespace caisson::http
