#include "doors/proxy/inside.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>

namespace caisson::proxy {

namespace asio = boost::asio;
using boost::system::error_code;
using Tcp = asio::ip::tcp;

namespace {

// A program that has answered and takes nothing for so long will not read the rest.
constexpr seconds kLookAgain{2};

bool has_said_something(int fd) {
  pollfd look{fd, POLLIN, 0};
  return ::poll(&look, 1, 0) > 0 && (look.revents & POLLIN) != 0;
}

}  // namespace

Result<Inside> Inside::take(const asio::any_io_executor& executor, UniqueFd fd,
                            std::uint16_t port) {
  Tcp::socket socket(executor);
  error_code ec;
  (void)socket.assign(Tcp::v4(), fd.get(), ec);
  if (ec) return failure(Errc::Internal, "assign a socket inside: " + ec.message());
  // A head and a small body are two writes: the second must not wait for the first one's receipt.
  const int on = 1;
  (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)fd.release();
  return Inside(std::move(socket), port);
}

std::unexpected<Error> Inside::wrong(std::string_view what) const {
  return failure(Errc::Protocol, fmt::format("port {} {}", port_, what));
}

awaitable<Result<std::size_t>> Inside::read_some(std::span<std::byte> out) {
  if (ahead_used_ < ahead_.size()) {
    const std::size_t count = std::min(out.size(), ahead_.size() - ahead_used_);
    std::memcpy(out.data(), ahead_.data() + ahead_used_, count);
    ahead_used_ += count;
    co_return count;
  }
  for (;;) {
    const ssize_t got = ::recv(socket_.native_handle(), out.data(), out.size(), MSG_DONTWAIT);
    const int reason = errno;
    if (got >= 0) {
      moved_ = Clock::now();
      co_return static_cast<std::size_t>(got);
    }
    if (reason == EINTR) continue;
    if (reason != EAGAIN) co_return wrong("broke the connection off");
    error_code ec;
    co_await socket_.async_wait(Tcp::socket::wait_read,
                                asio::redirect_error(asio::use_awaitable, ec));
    if (ec) co_return wrong("was left");
  }
}

Result<bool> Inside::send_now(std::span<iovec>& pieces) {
  while (!pieces.empty()) {
    if (pieces.front().iov_len == 0) {
      pieces = pieces.subspan(1);
      continue;
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      const int reason = errno;
      if (reason == EINTR) continue;
      if (reason == EAGAIN) return false;
      return wrong("closed the connection");
    }
    moved_ = Clock::now();
    auto left = static_cast<std::size_t>(sent);
    while (!pieces.empty() && left >= pieces.front().iov_len) {
      left -= pieces.front().iov_len;
      pieces = pieces.subspan(1);
    }
    if (left > 0) {
      pieces.front().iov_base = static_cast<char*>(pieces.front().iov_base) + left;
      pieces.front().iov_len -= left;
    }
  }
  return true;
}

awaitable<Result<void>> Inside::wait_until_taken() {
  using namespace asio::experimental::awaitable_operators;
  const TimePoint latest = Clock::now() + kStallTimeout;
  asio::steady_timer timer(socket_.get_executor());
  for (;;) {
    timer.expires_after(kLookAgain);
    error_code waited;
    error_code ec;
    const auto first =
        co_await (socket_.async_wait(Tcp::socket::wait_write,
                                     asio::redirect_error(asio::use_awaitable, ec)) ||
                  timer.async_wait(asio::redirect_error(asio::use_awaitable, waited)));
    if (first.index() == 0 && !ec) co_return Result<void>{};
    if (first.index() == 0) co_return wrong("was left");
    if (!switched_ && has_said_something(socket_.native_handle())) {
      co_return wrong("answered and reads no more");
    }
    if (Clock::now() >= latest) {
      co_return failure(Errc::TimedOut, "the program does not read its input");
    }
  }
}

awaitable<Result<void>> Inside::write(std::span<iovec> pieces) {
  for (;;) {
    const auto all = send_now(pieces);
    if (!all) co_return std::unexpected(all.error());
    if (*all) co_return Result<void>{};
    if (auto ready = co_await wait_until_taken(); !ready) co_return ready;
  }
}

awaitable<Result<void>> Inside::write(std::string_view bytes) {
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  const std::span<iovec> pieces(&piece, 1);
  co_return co_await write(pieces);
}

}  // namespace caisson::proxy
