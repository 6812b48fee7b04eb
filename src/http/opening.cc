#include "http/opening.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace caisson::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// A request of the usual size comes in one piece.
constexpr std::size_t kFirstBytesMax = 4096;

}  // namespace

Dialect dialect_of(std::string_view bytes) noexcept {
  const std::size_t known = std::min(bytes.size(), kHttp2Preface.size());
  if (bytes.substr(0, known) != kHttp2Preface.substr(0, known)) return Dialect::Http1;
  return known == kHttp2Preface.size() ? Dialect::Http2 : Dialect::None;
}

Opening::Opening(std::shared_ptr<ServerCore> core, std::shared_ptr<Seat> seat, Socket socket)
    : Served(std::move(core), std::move(seat)),
      socket_(std::move(socket)),
      deadline_(core_->tick + core_->limits.header_seconds + 1) {}

awaitable<Dialect> Opening::wait() {
  for (;;) {
    const std::size_t before = bytes_.size();
    bytes_.resize(before + kFirstBytesMax);
    error_code ec;
    const std::size_t got =
        co_await socket_.async_read_some(asio::buffer(bytes_.data() + before, kFirstBytesMax),
                                         asio::redirect_error(asio::use_awaitable, ec));
    bytes_.resize(before + got);
    if (ec || got == 0) co_return Dialect::None;
    const Dialect dialect = dialect_of(bytes_);
    if (dialect != Dialect::None) co_return dialect;
  }
}

void Opening::on_tick() {
  if (core_->tick >= deadline_) cut();
}

void Opening::cut() {
  if (socket_.is_open()) (void)::shutdown(socket_.native_handle(), SHUT_RDWR);
}

}  // namespace caisson::http
