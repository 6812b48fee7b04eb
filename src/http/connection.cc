#include "http/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace caisson::http {

namespace asio = boost::asio;
using boost::system::error_code;

Connection::Connection(std::shared_ptr<ServerCore> core, std::shared_ptr<Seat> seat, Socket socket,
                       Peer peer, std::string_view first)
    : Served(std::move(core), std::move(seat)),
      socket_(std::move(socket)),
      wire_(std::make_shared<Wire>()),
      in_(std::max(kReadBufferBytes, first.size())) {
  request_.peer = std::move(peer);
  wire_->fd = socket_.native_handle();
  std::copy(first.begin(), first.end(), in_.begin());
  in_end_ = first.size();
}

Connection::~Connection() = default;

void Connection::arm(Phase phase, std::uint32_t seconds) noexcept {
  phase_ = phase;
  expired_ = false;
  // One more: the current tick is already partly over.
  wire_->deadline = core_->tick + seconds + 1;
}

void Connection::disarm(Phase phase) noexcept {
  phase_ = phase;
  wire_->deadline = 0;
}

void Connection::on_tick() {
  if (wire_->deadline != 0 && core_->tick >= wire_->deadline) expire();
}

void Connection::expire() {
  wire_->deadline = 0;
  if (phase_ == Phase::Answer || phase_ == Phase::Switched) {
    cut();
    return;
  }
  expired_ = true;
  error_code ignored;
  (void)socket_.cancel(ignored);
}

void Connection::on_stop() {
  if (phase_ == Phase::Idle && in_begin_ == in_end_) cut();
}

void Connection::cut() {
  broken_ = true;
  if (wire_->fd >= 0) (void)::shutdown(wire_->fd, SHUT_RDWR);
}

void Connection::start_request() noexcept {
  fields_.clear();
  out_.clear();
  status_ = 0;
  kind_ = BodyKind::None;
  no_body_ = ended_ = false;
  close_ = said_close_ = false;
  body_done_ = !request_.has_body;
  body_left_bytes_ = request_.content_length.value_or(0);
  continue_due_ = framing_.expect_continue;
  if (framing_.chunked) chunks_ = ChunkDecoder();
  stall_left_ = core_->limits.stall_seconds;
  progress_ = 0;
}

// Waits for more of a head. False: the peer left, or its time is over.
awaitable<bool> Connection::fill_head() {
  make_room(core_->limits.header_bytes_max + 2);
  error_code ec;
  const std::size_t got =
      co_await socket_.async_read_some(asio::buffer(in_.data() + in_end_, in_.size() - in_end_),
                                       asio::redirect_error(asio::use_awaitable, ec));
  if (ec || got == 0) {
    hung_up_ = !expired_;
    co_return false;
  }
  in_end_ += got;
  burst_ = 0;
  co_return true;
}

awaitable<bool> Connection::next_request() {
  scanner_.reset();
  request_.method = Method::Get;  // until the parser says otherwise: a refusal has a body
  const bool idle = in_begin_ == in_end_;
  if (idle) {
    if (core_->stopping) co_return false;
    arm(Phase::Idle, core_->limits.idle_seconds);
    if (!co_await fill_head()) co_return false;
  }
  bool armed = false;
  for (;;) {
    auto scanned = scanner_.scan(buffered(), core_->limits);
    if (!scanned) {
      co_await answer_refusal(std::move(scanned.error()));
      co_return false;
    }
    if (scanned->has_value()) {
      disarm(Phase::Handler);
      const std::size_t start = scanner_.skipped();
      auto read =
          read_head(buffered().substr(start, **scanned - start), core_->limits, request_, framing_);
      consume(**scanned);
      if (!read) {
        co_await answer_refusal(std::move(read.error()));
        co_return false;
      }
      co_return true;
    }
    // However slowly the rest drips, all of it has the same one deadline.
    if (!armed) arm(Phase::Head, core_->limits.header_seconds);
    armed = true;
    if (co_await fill_head()) continue;
    if (expired_) {
      Refusal late{408, Error{Errc::TimedOut, "the head of the request did not arrive in time"}};
      co_await answer_refusal(std::move(late));
    }
    co_return false;
  }
}

awaitable<void> Connection::answer_refusal(Refusal refusal) {
  ++core_->counters.malformed;
  disarm(Phase::Handler);
  request_.has_body = false;
  framing_ = Framing();
  start_request();
  core_->write_id(request_.id);
  close_ = true;
  if (refusal.status == 405) set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
  std::string body = core_->error_body(refusal.status, refusal.error, request_.id);
  co_await respond(refusal.status, "application/json", std::move(body));
}

awaitable<void> Connection::handle_one() {
  core_->write_id(request_.id);
  start_request();
  ++core_->counters.requests;
  bool thrown = false;
  try {
    co_await core_->handler.handle(*this);
  } catch (...) {  // the one place: a bug in a handler ends its request, not the server
    thrown = true;
  }
  if (phase_ == Phase::Switched) {
    broken_ = true;
    co_return;
  }
  if (begun()) {
    // Half an answer: only a cut tells the peer that it is not whole.
    if (!ended_) broken_ = true;
    co_return;
  }
  close_ = close_ || thrown;
  fields_.clear();
  const Error error{Errc::Internal,
                    thrown ? "the request failed unexpectedly" : "the request was not answered"};
  std::string body = core_->error_body(500, error, request_.id);
  co_await respond(500, "application/json", std::move(body));
}

bool Connection::reusable() const noexcept {
  return !broken_ && !said_close_ && ended_ && !hung_up_;
}

awaitable<void> Connection::run() {
  while (co_await next_request()) {
    co_await handle_one();
    if (!reusable()) break;
    if (body_left() && !co_await drain()) break;
  }
  if (!broken_ && !hung_up_ && ended_) co_await linger();
}

awaitable<void> Connection::linger() {
  if (::shutdown(wire_->fd, SHUT_WR) != 0) co_return;
  arm(Phase::Linger, std::min(kLingerSeconds, core_->limits.stall_seconds));
  std::size_t dropped = 0;
  error_code ec;
  while (dropped < kLingerBytesMax) {
    const std::size_t got = co_await socket_.async_read_some(
        asio::buffer(in_), asio::redirect_error(asio::use_awaitable, ec));
    if (ec || got == 0) co_return;
    dropped += got;
  }
}

}  // namespace caisson::http
