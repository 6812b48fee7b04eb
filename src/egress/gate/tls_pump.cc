#include "egress/gate/tls_pump.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

namespace caisson::egress {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kRecordBytes = 16384;  // the clear text of one
// So much may pass before other connections have their turn.
constexpr int kOwnWordsMax = 64 * 1024;  // alerts and keys that nobody takes from us
constexpr std::size_t kTurnBytes = 256UL * 1024;

}  // namespace

TlsPump::TlsPump(const asio::any_io_executor& executor, TlsSession session)
    : executor_(executor),
      session_(std::move(session)),
      wire_(executor),
      plain_(executor),
      deadline_(executor, [this] { abort(); }),
      inward_done_(executor),
      outward_done_(executor) {}

Result<UniqueFd> TlsPump::open(UniqueFd wire) {
  int pair[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
    return sys_failure("socketpair", errno);
  UniqueFd ours(pair[0]);
  UniqueFd theirs(pair[1]);
  TRY(wire_.assign(std::move(wire)));
  TRY(plain_.assign(std::move(ours)));
  return theirs;
}

Result<void> TlsPump::feed(std::string_view bytes) {
  if (bytes.empty()) return {};
  const int taken =
      ::BIO_write(::SSL_get_rbio(session_.get()), bytes.data(), static_cast<int>(bytes.size()));
  if (taken != static_cast<int>(bytes.size()))
    return failure(Errc::Internal, tls_fault(session_.get()));
  return {};
}

IoState TlsPump::read_wire() {
  std::array<char, kRecordBytes> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled
  const Io got = wire_.try_read(piece.data(), piece.size());
  if (got.state != IoState::Moved) return got.state;
  return feed({piece.data(), got.bytes}) ? IoState::Moved : IoState::Broken;
}

asio::awaitable<bool> TlsPump::send(Stream& stream, std::string_view bytes) {
  while (!bytes.empty()) {
    const Io sent = stream.try_write(bytes);
    bytes.remove_prefix(sent.bytes);
    if (sent.state == IoState::Broken) co_return false;
    if (sent.state == IoState::WouldBlock && !co_await stream.wait_write()) co_return false;
  }
  co_return true;
}

// What TLS wants to be sent.
asio::awaitable<bool> TlsPump::flush() {
  BIO* out = ::SSL_get_wbio(session_.get());
  while (!aborted_ && BIO_pending(out) > 0) {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(out, &bytes);
    const std::string leaving(bytes, static_cast<std::size_t>(size));
    (void)BIO_reset(out);
    if (!co_await send(wire_, leaving)) co_return false;
  }
  co_return !aborted_;
}

asio::awaitable<Result<void>> TlsPump::handshake(milliseconds limit) {
  deadline_.set(limit);
  for (;;) {
    ::ERR_clear_error();
    const int outcome = ::SSL_do_handshake(session_.get());
    const int wanted = ::SSL_get_error(session_.get(), outcome);
    std::string fault;
    if (outcome != 1 && wanted != SSL_ERROR_WANT_READ) fault = tls_fault(session_.get());
    const bool sent = co_await flush();  // also the alert that says why not
    if (!fault.empty()) co_return failure(Errc::Protocol, std::move(fault));
    if (deadline_.passed()) co_return failure(Errc::TimedOut, "TLS: no answer in time");
    if (!sent) co_return failure(Errc::Gone, "TLS: the peer has left");
    if (outcome == 1) break;
    IoState state = read_wire();
    while (state == IoState::WouldBlock) {
      if (!co_await wire_.wait_read()) break;
      state = read_wire();
    }
    if (deadline_.passed()) co_return failure(Errc::TimedOut, "TLS: no answer in time");
    if (state != IoState::Moved) co_return failure(Errc::Gone, "TLS: the peer has left");
  }
  deadline_.clear();
  co_return Result<void>();
}

// One record's clear text, offered to whoever reads it; what is not taken at once is in `kept`.
TlsPump::Pull TlsPump::pull(std::string& kept) {
  std::array<char, kRecordBytes> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled
  ::ERR_clear_error();
  const int got = ::SSL_read(session_.get(), piece.data(), static_cast<int>(piece.size()));
  if (got > 0) {
    const auto size = static_cast<std::size_t>(got);
    const Io sent = plain_.try_write({piece.data(), size});
    if (sent.bytes < size) kept.assign(piece.data() + sent.bytes, size - sent.bytes);
    ::OPENSSL_cleanse(piece.data(), size);
    return sent.state == IoState::Broken ? Pull::Broken : Pull::Moved;
  }
  switch (::SSL_get_error(session_.get(), got)) {
    case SSL_ERROR_WANT_READ:
      return Pull::Want;
    case SSL_ERROR_ZERO_RETURN:
      return Pull::End;
    default:
      return Pull::Broken;
  }
}

asio::awaitable<bool> TlsPump::inward() {
  std::string kept;
  std::size_t turn = 0;
  while (!aborted_) {
    const Pull pulled = pull(kept);
    if (pulled == Pull::End) co_return true;
    if (pulled == Pull::Broken) co_return false;
    if (pulled == Pull::Moved) {
      if (!kept.empty() && !co_await send(plain_, kept)) co_return false;
      kept.clear();
      turn += kRecordBytes;
      if (turn >= kTurnBytes) {
        turn = 0;
        co_await asio::post(executor_, asio::use_awaitable);
      }
      continue;
    }
    // An alert or a new key: the other direction is woken up to send it.
    const int waiting = BIO_pending(::SSL_get_wbio(session_.get()));
    if (waiting > kOwnWordsMax) co_return false;  // it asks without end, and reads nothing
    if (waiting > 0) plain_.cancel();
    const IoState state = read_wire();
    if (state == IoState::Moved) {
      turn += kRecordBytes;  // a record of a few bytes costs as much as a large one
      if (turn < kTurnBytes) continue;
      turn = 0;
      co_await asio::post(executor_, asio::use_awaitable);
      continue;
    }
    // Many servers close without a word of TLS. Where that could be an end too early, the length
    // that HTTP names tells.
    if (state == IoState::End) co_return true;
    if (state == IoState::Broken) co_return false;
    turn = 0;
    if (!co_await wire_.wait_read()) co_return false;
  }
  co_return false;
}

IoState TlsPump::push() {
  std::array<char, kRecordBytes> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled
  const Io got = plain_.try_read(piece.data(), piece.size());
  if (got.state != IoState::Moved) return got.state;
  ::ERR_clear_error();
  const int taken = ::SSL_write(session_.get(), piece.data(), static_cast<int>(got.bytes));
  ::OPENSSL_cleanse(piece.data(), got.bytes);
  return taken == static_cast<int>(got.bytes) ? IoState::Moved : IoState::Broken;
}

asio::awaitable<bool> TlsPump::outward() {
  std::size_t turn = 0;
  while (!aborted_) {
    if (!co_await flush()) co_return false;
    const IoState state = push();
    if (state == IoState::Moved) {
      turn += kRecordBytes;
      if (turn < kTurnBytes) continue;
      turn = 0;
      co_await asio::post(executor_, asio::use_awaitable);
      continue;
    }
    if (state == IoState::Broken) co_return false;
    if (state == IoState::End) {
      ::ERR_clear_error();
      (void)::SSL_shutdown(session_.get());
      const bool sent = co_await flush();
      wire_.finish_writing();
      co_return sent;
    }
    turn = 0;
    (void)co_await plain_.wait_read();  // false: there is something of TLS's own to send
  }
  co_return false;
}

asio::awaitable<void> TlsPump::run_inward(std::shared_ptr<TlsPump> self) {
  bool ended = false;
  try {
    ended = co_await self->inward();
  } catch (...) {
    ended = false;  // an empty heap
  }
  if (ended) {
    self->plain_.finish_writing();
  } else {
    self->abort();
  }
  self->inward_done_.raise();
}

asio::awaitable<void> TlsPump::run_outward(std::shared_ptr<TlsPump> self) {
  bool ended = false;
  try {
    ended = co_await self->outward();
  } catch (...) {
    ended = false;
  }
  if (!ended) self->abort();
  self->outward_done_.raise();
}

void TlsPump::run() {
  running_ = true;
  asio::co_spawn(executor_, run_inward(shared_from_this()), asio::detached);
  asio::co_spawn(executor_, run_outward(shared_from_this()), asio::detached);
}

asio::awaitable<void> TlsPump::finish(milliseconds limit) {
  if (running_) {
    deadline_.set(limit);
    co_await outward_done_.wait();
    deadline_.clear();
    // What the peer still says, nobody hears. It has taken what was for it, so no reset.
    if (!aborted_) wire_.close();
  }
  abort();
  if (running_) co_await inward_done_.wait();
}

void TlsPump::abort() noexcept {
  aborted_ = true;
  wire_.reset();
  plain_.close();
}

}  // namespace caisson::egress
