#include "doors/sandboxer/log.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "doors/sandboxer/words.h"
#include "doors/shared/text.h"

namespace caisson::sandboxer {

namespace asio = boost::asio;

awaitable<void> Log::append(std::string bytes) {
  while (waiting_.size() > kLogWaitingMax) {
    hurry_ = offset();
    if (!co_await signal_.wait()) co_return;
  }
  waiting_ += bytes;
  write_soon();
  if (waiting_.size() >= kPieceBytesMax) pause_.cancel();
}

void Log::write_soon() {
  if (writing_ || waiting_.empty()) return;
  writing_ = true;
  asio::co_spawn(executor_, write(shared_from_this()), asio::detached);
}

// Half a character waits for its other half, unless there is none to come.
std::string Log::take_piece() {
  std::size_t size = std::min(waiting_.size(), kPieceBytesMax);
  if (!finishing_ || size < waiting_.size())
    size -= unfinished_bytes(std::string_view(waiting_).substr(0, size));
  std::string piece = waiting_.substr(0, size);
  waiting_.erase(0, size);
  offset_ += size;
  return piece;
}

awaitable<void> Log::write(std::shared_ptr<Log> self) {
  Log& log = *self;
  for (;;) {
    const bool hurry = log.finishing_ || log.settled_ < log.hurry_;
    if (!hurry && log.waiting_.size() < kPieceBytesMax) {
      log.pause_.expires_after(log.followers_ > 0 ? kFollowedDelay : kQuietDelay);
      boost::system::error_code ec;
      co_await log.pause_.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    }
    const std::string bytes = log.take_piece();
    if (bytes.empty()) break;
    store::RunPiece piece;
    piece.run = log.run_.id;
    piece.content = doors::lossy_utf8(bytes);
    piece.time = store::wall_now();
    piece.offset = static_cast<std::int64_t>(log.offset_);
    std::vector<store::RunPiece> pieces;
    pieces.push_back(std::move(piece));
    log.since_trim_ += static_cast<std::int64_t>(bytes.size());
    std::optional<store::RunTrim> trim;
    if (log.since_trim_ > kTrimEveryBytes) trim = store::RunTrim{log.run_.id, kLogBytesMax};
    std::optional<store::RunRecord> run;
    if (!log.known_) run = log.run_;
    // A full disk must not hold up the program: what cannot be kept is dropped.
    const auto written =
        co_await log.history_.put_pieces(std::move(run), std::move(pieces), std::move(trim));
    if (written) {
      log.known_ = true;
      if (log.since_trim_ > kTrimEveryBytes) log.since_trim_ = 0;
    } else {
      log.lost_ += bytes.size();
    }
    log.settled_ = log.offset_;
    log.signal_.wake();
    if (log.waiting_.empty()) break;
  }
  log.writing_ = false;
  log.hurry_ = 0;
  log.signal_.wake();
}

awaitable<void> Log::flush() {
  const std::uint64_t goal = offset();
  hurry_ = goal;
  pause_.cancel();
  write_soon();
  while (writing_ && settled_ < goal) {
    if (!co_await signal_.wait()) co_return;
  }
}

awaitable<void> Log::finish(std::optional<int> exit_code) {
  finishing_ = true;
  co_await flush();
  run_.exit_code = exit_code;
  (void)co_await history_.put_run(run_);
  ended_ = true;
  signal_.wake();
}

awaitable<Result<std::string>> LogReader::next() {
  store::PieceQuery query;
  query.run = run_;
  query.after = after_;
  query.limit = kPiecesPerRead;
  query.bytes = kLogReadBytes;
  auto pieces = co_await history_.pieces(std::move(query));
  if (!pieces) co_return std::unexpected(pieces.error());
  std::string out;
  for (const store::RunPiece& piece : *pieces) {
    after_ = std::max(after_, piece.id);
    offset_ = std::max(offset_, piece.offset);
    out += piece.content;
  }
  co_return out;
}

}  // namespace caisson::sandboxer
