#include "http/http2_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

#include "http/connection.h"

namespace caisson::http {

namespace asio = boost::asio;
using boost::system::error_code;

Http2Connection::Http2Connection(std::shared_ptr<ServerCore> core, std::shared_ptr<Seat> seat,
                                 Socket socket, Peer peer)
    : Served(std::move(core), std::move(seat)),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      meter_(core_->limits),
      room_(core_->executor, asio::steady_timer::time_point::max()),
      idle_since_(core_->tick) {}

Http2Connection::~Http2Connection() {
  core_->counters.held -= out_.size() - out_begin_;
  seat_->give_back(out_.size() - out_begin_);
}

bool Http2Connection::open_session() {
  session_.reset(make_http2_session(*this));
  if (!session_) return false;
  const Limits& limits = core_->limits;
  const std::array<nghttp2_settings_entry, 4> settings{{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.h2_streams_max},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.h2_stream_window},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(limits.header_bytes_max)},
      // Trees of priorities are work for us and of no use to anybody.
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  }};
  return nghttp2_submit_settings(session_.get(), NGHTTP2_FLAG_NONE, settings.data(),
                                 settings.size()) == 0 &&
         nghttp2_session_set_local_window_size(
             session_.get(), NGHTTP2_FLAG_NONE, 0,
             static_cast<std::int32_t>(limits.h2_connection_window)) == 0;
}

// --- bytes in

awaitable<void> Http2Connection::run(std::string first) {
  bool here = open_session();
  if (here) feed(first);
  while (here && !broken_ && !over()) here = co_await receive();
  abandon_streams();
  if (here && !broken_) co_await linger();
  broken_ = true;
  error_code ignored;
  (void)socket_.close(ignored);
}

// One turn. False: the peer has left.
awaitable<bool> Http2Connection::receive() {
  error_code ec;
  if (waiting_to_write_ && full()) {
    // Whoever does not listen is not listened to: its requests would only make more to say.
    co_await room_.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    co_return true;
  }
  std::string& scratch = core_->scratch;
  if (scratch.empty()) scratch.resize(kTurnBytesMax);
  const ssize_t got = ::recv(socket_.native_handle(), scratch.data(), scratch.size(), MSG_DONTWAIT);
  const int reason = errno;
  if (got > 0) {
    const auto bytes = static_cast<std::size_t>(got);
    feed(std::string_view(scratch.data(), bytes));
    if (bytes == scratch.size()) co_await asio::post(core_->executor, asio::use_awaitable);
    co_return true;
  }
  if (got < 0 && reason == EINTR) co_return true;
  if (got == 0 || reason != EAGAIN) co_return false;
  co_await socket_.async_wait(Socket::wait_read, asio::redirect_error(asio::use_awaitable, ec));
  co_return true;
}

void Http2Connection::feed(std::string_view bytes) {
  if (deaf_) return;
  if (meter_.see(bytes)) {
    watch_head();
    const ssize_t used = nghttp2_session_mem_recv(
        session_.get(), reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    start_ready();
    if (used < 0) {
      terminate(used == NGHTTP2_ERR_BAD_CLIENT_MAGIC ? NGHTTP2_PROTOCOL_ERROR
                                                     : NGHTTP2_ENHANCE_YOUR_CALM);
    }
  } else {
    terminate(NGHTTP2_ENHANCE_YOUR_CALM);
  }
  flush();
}

// However slowly it drips, a head has one deadline.
void Http2Connection::watch_head() noexcept {
  if (!meter_.in_head()) {
    head_deadline_ = 0;
  } else if (head_deadline_ == 0 || head_number_ != meter_.heads()) {
    head_deadline_ = core_->tick + core_->limits.header_seconds + 1;
    head_number_ = meter_.heads();
  }
}

// Each handler has a turn of its own, so that many heads in one piece do not keep the thread.
void Http2Connection::start_ready() {
  for (std::shared_ptr<Http2Stream>& stream : ready_) {
    asio::post(core_->executor, [stream = std::move(stream)]() mutable {
      const asio::any_io_executor executor = stream->executor();
      asio::co_spawn(executor, Http2Stream::serve(std::move(stream)), asio::detached);
    });
  }
  ready_.clear();
}

// Our last words are lost if the socket is closed while bytes of the peer lie unread.
awaitable<void> Http2Connection::linger() {
  if (::shutdown(socket_.native_handle(), SHUT_WR) != 0) co_return;
  linger_deadline_ = core_->tick + std::min(kLingerSeconds, core_->limits.stall_seconds) + 1;
  deaf_ = true;
  std::size_t dropped = 0;
  std::array<char, 4096> scratch{};
  error_code ec;
  while (dropped < kLingerBytesMax && !broken_) {
    const std::size_t got = co_await socket_.async_read_some(
        asio::buffer(scratch), asio::redirect_error(asio::use_awaitable, ec));
    if (ec || got == 0) co_return;
    dropped += got;
  }
}

// --- bytes out

void Http2Connection::append(std::string_view bytes) {
  // What is sent already goes before the rest would have to move.
  if (out_begin_ >= kOutBytesMax) out_.erase(0, std::exchange(out_begin_, 0));
  out_.append(bytes);
  core_->counters.held += bytes.size();
  seat_->hold(bytes.size());
}

void Http2Connection::pump() {
  if (pumping_ || broken_ || mute_) return;
  pumping_ = true;
  ssize_t got = 0;
  while (!full()) {
    const std::uint8_t* bytes = nullptr;
    got = nghttp2_session_mem_send(session_.get(), &bytes);
    if (got <= 0) break;
    append({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(got)});
  }
  pumping_ = false;
  if (got < 0) cut();
}

void Http2Connection::kick() {
  if (kicked_ || waiting_to_write_ || broken_) return;
  kicked_ = true;
  asio::post(core_->executor, [self = shared_from_this()] {
    self->kicked_ = false;
    self->flush();
  });
}

void Http2Connection::flush() {
  if (waiting_to_write_ || mute_) return;
  std::size_t left = kTurnBytesMax;
  while (!broken_) {
    pump();
    const std::size_t before = out_.size() - out_begin_;
    if (before == 0) break;
    if (left == 0) return kick();
    if (!send_some()) return;
    left -= std::min(left, before - (out_.size() - out_begin_));
  }
  // The reader waits for bytes that will not come.
  error_code ignored;
  if (!broken_ && over()) (void)socket_.cancel(ignored);
}

// False: the socket is full, or gone.
bool Http2Connection::send_some() {
  const ssize_t sent = ::send(socket_.native_handle(), out_.data() + out_begin_,
                              out_.size() - out_begin_, MSG_DONTWAIT | MSG_NOSIGNAL);
  const int reason = errno;
  if (sent < 0) {
    if (reason == EINTR) return true;
    if (reason == EAGAIN) {
      wait_writable();
    } else {
      cut();
    }
    return false;
  }
  const auto taken = static_cast<std::size_t>(sent);
  core_->counters.held -= taken;
  seat_->give_back(taken);
  out_begin_ += taken;
  sent_slowly_ += taken;
  if (out_begin_ == out_.size()) {
    out_.clear();
    out_begin_ = 0;
  }
  // A byte now and then is no progress.
  if (out_.empty() || sent_slowly_ >= kProgressBytesMin) {
    blocked_ticks_ = 0;
    sent_slowly_ = 0;
  }
  return true;
}

void Http2Connection::wait_writable() {
  waiting_to_write_ = true;
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](error_code) {
    self->waiting_to_write_ = false;
    if (self->broken_) return;
    self->flush();
    self->room_.cancel();
  });
}

// --- its end

bool Http2Connection::over() noexcept {
  return out_begin_ == out_.size() && nghttp2_session_want_read(session_.get()) == 0 &&
         nghttp2_session_want_write(session_.get()) == 0;
}

void Http2Connection::terminate(std::uint32_t code) {
  if (std::exchange(deaf_, true)) return;
  (void)nghttp2_session_terminate_session(session_.get(), code);
  kick();
}

// Requests that are under way go on; the peer learns which were not begun, and may send those
// again.
void Http2Connection::say_goodbye() {
  if (broken_ || !session_ || std::exchange(goodbye_said_, true)) return;
  meter_.on_goodbye();
  (void)nghttp2_submit_goaway(session_.get(), NGHTTP2_FLAG_NONE,
                              nghttp2_session_get_last_proc_stream_id(session_.get()),
                              NGHTTP2_NO_ERROR, nullptr, 0);
  kick();
}

void Http2Connection::abandon_streams() {
  mute_ = true;
  auto streams = std::exchange(streams_, {});
  for (auto& [id, stream] : streams) {
    nghttp2_session_set_stream_user_data(session_.get(), id, nullptr);
    stream->abandon();
  }
}

void Http2Connection::cut() {
  // The streams that go may be the last who hold us.
  const auto self = weak_from_this().lock();
  if (std::exchange(broken_, true)) return;
  if (socket_.is_open()) (void)::shutdown(socket_.native_handle(), SHUT_RDWR);
  room_.cancel();
  abandon_streams();
}

void Http2Connection::on_stop() { say_goodbye(); }

void Http2Connection::on_tick() {
  if (broken_) return;
  const Limits& limits = core_->limits;
  meter_.on_tick();
  const auto passed = [this](std::uint64_t deadline) {
    return deadline != 0 && core_->tick >= deadline;
  };
  if (passed(linger_deadline_)) return cut();
  if (passed(head_deadline_)) {
    head_deadline_ = 0;
    return terminate(NGHTTP2_ENHANCE_YOUR_CALM);
  }
  if (waiting_to_write_ && ++blocked_ticks_ > limits.stall_seconds) return cut();
  for (auto& [id, stream] : streams_) stream->on_tick();
  if (streams_alive_ == 0) {
    if (out_.empty()) out_.shrink_to_fit();
    if (core_->tick > idle_since_ + limits.idle_seconds) say_goodbye();
  }
}

// --- what is held

bool Http2Connection::has_room() const noexcept {
  return streams_alive_ < core_->limits.h2_streams_max && heads_bytes_ < kHeadsBytesMax &&
         seat_->has_room(kStreamBytes);
}

void Http2Connection::stream_added() noexcept {
  ++streams_alive_;
  seat_->hold(kStreamBytes);
}

void Http2Connection::stream_removed() noexcept {
  seat_->give_back(kStreamBytes);
  if (--streams_alive_ == 0) idle_since_ = core_->tick;
}

bool Http2Connection::hold_head(std::size_t bytes) noexcept {
  if (heads_bytes_ + bytes > kHeadsBytesMax || !seat_->has_room(bytes)) return false;
  heads_bytes_ += bytes;
  seat_->hold(bytes);
  return true;
}

void Http2Connection::give_back_head(std::size_t bytes) noexcept {
  heads_bytes_ -= bytes;
  seat_->give_back(bytes);
}

bool Http2Connection::hold_body(std::size_t bytes) noexcept {
  if (!seat_->has_room(bytes)) return false;
  core_->counters.held += bytes;
  seat_->hold(bytes);
  return true;
}

void Http2Connection::give_back(std::int32_t stream, std::size_t bytes) noexcept {
  core_->counters.held -= bytes;
  seat_->give_back(bytes);
  pass_over(stream, bytes);
}

void Http2Connection::pass_over(std::int32_t stream, std::size_t bytes) noexcept {
  if (broken_ || bytes == 0) return;
  (void)nghttp2_session_consume(session_.get(), stream, bytes);
  if (nghttp2_session_want_write(session_.get()) != 0) kick();
}

}  // namespace caisson::http
