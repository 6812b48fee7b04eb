// The request's body: from the buffer first, then from the socket straight into the caller's
// memory.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "http/connection.h"

namespace caisson::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

std::unexpected<Error> peer_left() { return failure(Errc::Gone, "the client has left"); }

}  // namespace

std::string_view Connection::buffered() const noexcept {
  return {in_.data() + in_begin_, in_end_ - in_begin_};
}

void Connection::consume(std::size_t bytes) noexcept {
  in_begin_ += bytes;
  if (in_begin_ == in_end_) in_begin_ = in_end_ = 0;
}

// Room for more behind what is there: moves it to the front, or grows up to `capacity_max`.
void Connection::make_room(std::size_t capacity_max) {
  if (in_end_ < in_.size()) return;
  if (in_begin_ > 0) {
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
    return;
  }
  in_.resize(std::max(in_.size() + 1, std::min(in_.size() * 2, capacity_max)));
}

awaitable<Result<void>> Connection::before_body() {
  if (!continue_due_) co_return Result<void>();
  continue_due_ = false;
  // A client that sends the body without waiting needs no word from us.
  if (in_begin_ != in_end_ || begun()) co_return Result<void>();
  iovec piece{const_cast<char*>(kContinue.data()), kContinue.size()};
  const Pieces pieces(&piece, 1);
  co_return co_await send(pieces);
}

// Bytes from the socket, at least one. The time spent waiting here is the peer's; it is renewed
// only by real progress, so that a byte now and then does not hold a connection for ever.
awaitable<Result<std::size_t>> Connection::receive_body(std::span<std::byte> out) {
  for (;;) {
    const ssize_t got = ::recv(wire_->fd, out.data(), out.size(), MSG_DONTWAIT);
    const int reason = errno;
    if (got > 0) {
      const auto bytes = static_cast<std::size_t>(got);
      progress_ += bytes;
      if (progress_ >= kProgressBytesMin) {
        stall_left_ = core_->limits.stall_seconds;
        progress_ = 0;
      }
      co_await breathe(bytes);
      co_return bytes;
    }
    if (got == 0) hung_up_ = true;
    if (got == 0 || (reason != EAGAIN && reason != EINTR)) {
      close_ = true;
      co_return peer_left();
    }
    if (reason == EINTR) continue;
    const std::uint64_t before = core_->tick;
    arm(Phase::Body, static_cast<std::uint32_t>(stall_left_));
    error_code ec;
    co_await socket_.async_wait(Socket::wait_read, asio::redirect_error(asio::use_awaitable, ec));
    disarm(Phase::Handler);
    burst_ = 0;
    stall_left_ -= std::min(stall_left_, core_->tick - before);
    if (!ec) continue;
    close_ = true;
    if (expired_)
      co_return failure(Errc::TimedOut, "the body of the request did not arrive in time");
    co_return peer_left();
  }
}

awaitable<Result<std::size_t>> Connection::read_sized(std::span<std::byte> out) {
  const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), body_left_bytes_));
  std::size_t got = std::min(want, in_end_ - in_begin_);
  if (got > 0) {
    std::memcpy(out.data(), in_.data() + in_begin_, got);
    consume(got);
  } else {
    auto received = co_await receive_body(out.first(want));
    if (!received) co_return std::unexpected(received.error());
    got = *received;
  }
  body_left_bytes_ -= got;
  if (body_left_bytes_ == 0) body_done_ = true;
  co_return got;
}

awaitable<Result<std::size_t>> Connection::read_chunked(std::span<std::byte> out) {
  for (;;) {
    auto step = chunks_.decode(buffered(), out);
    if (!step) {
      close_ = true;
      ++core_->counters.malformed;
      co_return std::unexpected(step.error());
    }
    consume(step->consumed);
    body_done_ = step->done;
    if (step->produced > 0 || step->done) co_return step->produced;
    // Everything buffered was used, as `out` has room: the buffer is empty.
    const auto room = std::as_writable_bytes(std::span(in_));
    auto received = co_await receive_body(room);
    if (!received) co_return std::unexpected(received.error());
    in_end_ = *received;
  }
}

awaitable<Result<std::size_t>> Connection::read_some(std::span<std::byte> out) {
  if (body_done_ || out.empty()) co_return std::size_t{0};
  if (broken_) co_return peer_left();
  auto ready = co_await before_body();
  if (!ready) co_return std::unexpected(ready.error());
  if (framing_.chunked) {
    auto got = co_await read_chunked(out);
    co_return got;
  }
  auto got = co_await read_sized(out);
  co_return got;
}

bool Connection::drainable() const noexcept {
  if (!body_left()) return true;
  // Whether a client that asked for leave sends its body after a final answer cannot be known.
  if (continue_due_) return false;
  return framing_.chunked || body_left_bytes_ <= kDrainBytesMax;
}

awaitable<bool> Connection::drain() {
  std::array<std::byte, 4096> scratch{};
  std::size_t dropped = 0;
  while (body_left()) {
    if (dropped >= kDrainBytesMax) co_return false;
    const std::span<std::byte> room(scratch);
    auto got = co_await read_some(room);
    if (!got) co_return false;
    dropped += *got;
  }
  co_return true;
}

// Bytes that wait on the socket make it readable for ever, so behind a pipelined request (or an
// unread body) only a look now and then can tell that the peer's end was sent, too.
awaitable<void> Connection::wait_for_hangup() {
  constexpr std::chrono::milliseconds kLookAgain{500};
  const int fd = wire_->fd;
  while (!broken_ && !hung_up_ && fd >= 0) {
    char byte = 0;
    const ssize_t got = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    const int reason = errno;
    error_code ec;
    if (got == 0 || (got < 0 && reason != EAGAIN && reason != EINTR)) {
      hung_up_ = true;
      co_return;
    }
    if (got < 0) {
      co_await socket_.async_wait(Socket::wait_read, asio::redirect_error(asio::use_awaitable, ec));
    } else {
      pollfd look{fd, POLLRDHUP, 0};
      if (::poll(&look, 1, 0) > 0) {
        hung_up_ = true;
        co_return;
      }
      asio::steady_timer timer(socket_.get_executor(), kLookAgain);
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    }
    const auto cancelled = (co_await asio::this_coro::cancellation_state).cancelled();
    if (cancelled != asio::cancellation_type::none) co_return;
  }
}

awaitable<Result<std::size_t>> Connection::raw_read(std::span<std::byte> out) {
  if (phase_ != Phase::Switched) co_return failure(Errc::Internal, "raw_read() before a 101");
  const std::size_t have = std::min(out.size(), in_end_ - in_begin_);
  if (have > 0) {
    std::memcpy(out.data(), in_.data() + in_begin_, have);
    consume(have);
    co_return have;
  }
  error_code ec;
  const std::size_t got = co_await socket_.async_read_some(
      asio::buffer(out.data(), out.size()), asio::redirect_error(asio::use_awaitable, ec));
  burst_ = 0;
  if (ec == asio::error::eof) co_return std::size_t{0};
  if (ec) co_return peer_left();
  co_return got;
}

}  // namespace caisson::http
