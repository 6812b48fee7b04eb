#include "egress/gate/stream.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

namespace caisson::egress {

namespace asio = boost::asio;
using boost::system::error_code;

Result<void> Stream::assign(UniqueFd fd) {
  close();
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return sys_failure("fcntl", errno);
  }
  const int on = 1;  // a datagram socket says no, and needs it not
  (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  error_code ec;
  (void)descriptor_.assign(fd.get(), ec);
  if (ec) return sys_failure("assign a socket", ec.value());
  (void)fd.release();
  return {};
}

Io Stream::try_read(char* into, std::size_t size) noexcept {
  if (!is_open()) return {};
  for (;;) {
    const ssize_t got = ::recv(descriptor_.native_handle(), into, size, MSG_DONTWAIT);
    if (got > 0) return {IoState::Moved, static_cast<std::size_t>(got)};
    if (got == 0) return {IoState::End, 0};
    const int reason = errno;
    if (reason == EINTR) continue;
    return {reason == EAGAIN ? IoState::WouldBlock : IoState::Broken, 0};
  }
}

Io Stream::try_write(std::string_view bytes) noexcept {
  if (!is_open()) return {};
  for (;;) {
    const ssize_t sent = ::send(descriptor_.native_handle(), bytes.data(), bytes.size(),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return {IoState::Moved, static_cast<std::size_t>(sent)};
    const int reason = errno;
    if (reason == EINTR) continue;
    return {reason == EAGAIN ? IoState::WouldBlock : IoState::Broken, 0};
  }
}

asio::awaitable<bool> Stream::wait_read() {
  if (!is_open()) co_return false;
  error_code ec;
  co_await descriptor_.async_wait(asio::posix::descriptor_base::wait_read,
                                  asio::redirect_error(asio::use_awaitable, ec));
  co_return !ec && is_open();
}

asio::awaitable<bool> Stream::wait_write() {
  if (!is_open()) co_return false;
  error_code ec;
  co_await descriptor_.async_wait(asio::posix::descriptor_base::wait_write,
                                  asio::redirect_error(asio::use_awaitable, ec));
  co_return !ec && is_open();
}

void Stream::cancel() noexcept {
  error_code ignored;
  if (is_open()) (void)descriptor_.cancel(ignored);
}

void Stream::finish_writing() noexcept {
  if (is_open()) (void)::shutdown(descriptor_.native_handle(), SHUT_WR);
}

void Stream::close() noexcept {
  error_code ignored;
  if (is_open()) (void)descriptor_.close(ignored);
}

void Stream::reset() noexcept {
  if (!is_open()) return;
  const linger hard{1, 0};
  (void)::setsockopt(descriptor_.native_handle(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  close();
}

bool Stream::is_stale() noexcept {
  if (!is_open()) return true;
  char byte = 0;
  const ssize_t got = ::recv(descriptor_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got >= 0 || (errno != EAGAIN && errno != EINTR);
}

bool Stream::hung_up() noexcept {
  if (!is_open()) return true;
  pollfd look{descriptor_.native_handle(), POLLRDHUP, 0};
  return ::poll(&look, 1, 0) > 0;
}

}  // namespace caisson::egress
