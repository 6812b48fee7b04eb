// The bytes of a connection. A piece is read into memory on the stack and offered to the other side
// at once; only what that side does not take is copied and kept. So a connection that rests, and
// one that flows without hindrance, hold no buffer.
#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <limits>
#include <utility>

#include "egress/gate/connection.h"

namespace caisson::egress {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kHeadPieceBytes = 16UL * 1024;
constexpr std::size_t kLingerBytesMax = 1024UL * 1024;
constexpr seconds kLinger{2};

struct Step {
  IoState read = IoState::Broken;
  bool write_broken = false;
  std::size_t bytes = 0;
};

// One piece from here to there; what was not taken is in `kept`.
Step move_piece(Stream& from, Stream& to, std::string& kept, std::size_t most) {
  std::array<char, kPieceBytes> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled
  const Io got = from.try_read(piece.data(), std::min(most, piece.size()));
  Step step{got.state, false, got.bytes};
  if (got.state != IoState::Moved) return step;
  const Io sent = to.try_write({piece.data(), got.bytes});
  step.write_broken = sent.state == IoState::Broken;
  if (sent.bytes < got.bytes) kept.assign(piece.data() + sent.bytes, got.bytes - sent.bytes);
  return step;
}

}  // namespace

asio::awaitable<bool> Connection::readable(Stream& stream) {
  if (cut_ || deadline.passed()) co_return false;
  const bool ready = co_await stream.wait_read();
  co_return ready && !cut_ && !deadline.passed();
}

asio::awaitable<bool> Connection::writable(Stream& stream) {
  if (cut_ || deadline.passed()) co_return false;
  const bool ready = co_await stream.wait_write();
  co_return ready && !cut_ && !deadline.passed();
}

asio::awaitable<void> Connection::breathe(std::size_t bytes) {
  constexpr std::size_t kPieceCost = 8UL * 1024;  // a piece of one byte is not for nothing
  breathless_ += bytes + kPieceCost;
  if (breathless_ < kBurstBytes) co_return;
  breathless_ = 0;
  co_await asio::post(core->executor, asio::use_awaitable);
}

asio::awaitable<Fill> Connection::fill(Stream& stream, std::string& into, std::size_t most) {
  for (;;) {
    const std::size_t had = into.size();
    into.resize(had + most);
    const Io got = stream.try_read(into.data() + had, most);
    into.resize(had + got.bytes);
    if (got.state == IoState::Moved) {
      co_await breathe(got.bytes);
      co_return cut_ ? Fill::Broken : Fill::More;
    }
    if (got.state == IoState::End) co_return Fill::End;
    if (got.state == IoState::Broken) co_return Fill::Broken;
    if (into.empty()) std::string().swap(into);  // nothing is held while it rests
    if (!co_await readable(stream)) co_return Fill::Broken;
  }
}

asio::awaitable<Fill> Connection::fill_in() {
  const Fill filled = co_await fill(client, in, kHeadPieceBytes);
  co_return filled;
}

asio::awaitable<Fill> Connection::fill_up_in() {
  const std::uint64_t most = std::min<std::uint64_t>(allowance(), kHeadPieceBytes);
  if (most == 0) {
    bytes_are_spent();
    co_return Fill::Broken;
  }
  const std::size_t had = up_in.size();
  const Fill filled = co_await fill(upstream, up_in, static_cast<std::size_t>(most));
  if (filled == Fill::More) count(Direction::Down, up_in.size() - had);
  co_return filled;
}

asio::awaitable<bool> Connection::send(Stream& stream, std::string_view bytes) {
  while (!bytes.empty()) {
    const Io sent = stream.try_write(bytes);
    bytes.remove_prefix(sent.bytes);
    if (sent.state == IoState::Broken) co_return false;
    if (sent.state == IoState::WouldBlock && !co_await writable(stream)) co_return false;
    if (sent.state == IoState::Moved) co_await breathe(sent.bytes);
  }
  co_return !cut_;
}

asio::awaitable<bool> Connection::send_client(std::string_view bytes) {
  const bool sent = co_await send(client, bytes);
  co_return sent;
}

asio::awaitable<bool> Connection::send_up(std::string_view bytes) {
  if (bytes.size() > allowance()) {
    bytes_are_spent();
    co_return false;
  }
  count(Direction::Up, bytes.size());
  const bool sent = co_await send(upstream, bytes);
  co_return sent;
}

asio::awaitable<PumpEnd> Connection::pump(Direction direction, std::uint64_t limit) {
  Stream& from = direction == Direction::Up ? client : upstream;
  Stream& to = direction == Direction::Up ? upstream : client;
  std::string kept;
  std::size_t burst = 0;
  // Stopped is not broken: nothing was taken from the source that is not behind us.
  const auto stopped = [&] { return direction == Direction::Down && stop_down_; };
  while (limit > 0 && !stopped()) {
    const std::uint64_t most = std::min(limit, allowance());
    if (most == 0) {
      bytes_are_spent();
      co_return PumpEnd::Broken;
    }
    const Step step = move_piece(from, to, kept,
                                 static_cast<std::size_t>(std::min<std::uint64_t>(
                                     most, std::numeric_limits<std::size_t>::max())));
    if (step.read == IoState::End) co_return PumpEnd::End;
    if (step.read == IoState::Broken || step.write_broken) co_return PumpEnd::Broken;
    if (step.read == IoState::WouldBlock) {
      std::string().swap(kept);
      burst = 0;
      if (!co_await readable(from) && !stopped()) co_return PumpEnd::Broken;
      continue;
    }
    limit -= step.bytes;
    count(direction, step.bytes);
    deadline.set(core->times.quiet);
    if (!kept.empty()) {
      burst = 0;
      if (!co_await send(to, kept)) co_return PumpEnd::Broken;
      kept.clear();
    }
    burst += step.bytes;
    if (burst >= kBurstBytes) {
      burst = 0;
      co_await asio::post(core->executor, asio::use_awaitable);
    }
  }
  co_return limit > 0 ? PumpEnd::Stopped : PumpEnd::Limit;
}

asio::awaitable<PumpEnd> Connection::pass_down() {
  if (!up_in.empty()) {
    const std::string early = std::exchange(up_in, {});
    if (!co_await send_client(early)) co_return PumpEnd::Broken;
  }
  const PumpEnd end = co_await pump(Direction::Down, std::numeric_limits<std::uint64_t>::max());
  co_return end;
}

asio::awaitable<void> Connection::run_down(std::shared_ptr<Connection> self,
                                           std::shared_ptr<Signal> done) {
  PumpEnd end = PumpEnd::Broken;
  try {
    end = co_await self->pass_down();
  } catch (...) {
    end = PumpEnd::Broken;  // an empty heap: whoever waits for us must not wait for ever
  }
  if (end == PumpEnd::End) {
    self->client.finish_writing();
  } else if (end == PumpEnd::Broken) {
    self->cut();
  }
  done->raise();
}

std::shared_ptr<Signal> Connection::start_down() {
  auto done = std::make_shared<Signal>(core->executor);
  stop_down_ = false;
  asio::co_spawn(core->executor, run_down(shared_from_this(), done), asio::detached);
  return done;
}

asio::awaitable<void> Connection::stop_down(std::shared_ptr<Signal> down) {
  stop_down_ = true;
  while (!down->raised()) {
    client.cancel();
    upstream.cancel();
    // Its first turn may still be to come: then there was nothing to cancel yet.
    co_await asio::post(core->executor, asio::use_awaitable);
  }
  stop_down_ = false;  // whoever passes bytes down next is not meant
}

asio::awaitable<void> Connection::run_up() {
  const std::string early = std::exchange(in, {});
  if (!early.empty() && !co_await send_up(early)) {
    cut();
    co_return;
  }
  deadline.set(core->times.quiet);
  const PumpEnd end = co_await pump(Direction::Up, std::numeric_limits<std::uint64_t>::max());
  if (end == PumpEnd::End) {
    upstream.finish_writing();
  } else {
    cut();
  }
}

asio::awaitable<void> Connection::relay() {
  deadline.set(core->times.quiet);
  const auto down = start_down();
  co_await run_up();
  co_await down->wait();
}

asio::awaitable<void> Connection::linger() {
  if (cut_ || !client.is_open()) co_return;
  client.finish_writing();
  deadline.set(kLinger);
  std::size_t dropped = 0;
  while (dropped < kLingerBytesMax) {
    in.clear();
    if (co_await fill_in() != Fill::More) break;
    dropped += in.size();
  }
  client.close();
}

}  // namespace caisson::egress
