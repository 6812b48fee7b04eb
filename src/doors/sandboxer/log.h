// doors/sandboxer/log.h — what the main process of a sandbox says, on its way into the history.
//
// Whoever writes never waits for the disk, as long as not more than kLogWaitingMax waits for it.
// Bytes are put together to pieces: large ones, or what came in a moment; the moment is short while
// somebody follows. Of a log the newest kLogBytesMax are kept.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "control/history.h"
#include "doors/sandboxer/signal.h"

namespace caisson::sandboxer {

inline constexpr std::size_t kPieceBytesMax = 64UL * 1024;
inline constexpr std::size_t kLogWaitingMax = 1024UL * 1024;
inline constexpr std::int64_t kLogBytesMax = 8L << 20U;
inline constexpr std::int64_t kTrimEveryBytes = 1L << 20U;
inline constexpr milliseconds kFollowedDelay{20};
inline constexpr milliseconds kQuietDelay{500};
inline constexpr std::size_t kPiecesPerRead = 64;
inline constexpr std::size_t kLogReadBytes = 128UL * 1024;  // about, of one look into the history
inline constexpr std::string_view kMainRun = "main:";       // and the sandbox's name: the run's id
// And the row's id: whose run it is. So a log is not one of the runs of which the oldest go.
inline constexpr std::string_view kLogOwner = "log:";

class Log : public std::enable_shared_from_this<Log> {
 public:
  // `offset`: so many bytes of the output are in the history already.
  Log(boost::asio::any_io_executor executor, control::History& history, store::RunRecord run,
      std::uint64_t offset)
      : executor_(std::move(executor)),
        history_(history),
        run_(std::move(run)),
        offset_(offset),
        settled_(offset),
        signal_(executor_),
        pause_(executor_) {}

  // Waits while too much waits for the disk.
  awaitable<void> append(std::string bytes);
  // Until all that has come by now is in the history, or lost: what comes meanwhile is not waited
  // for, as a program may talk for ever.
  awaitable<void> flush();
  // Nothing comes any more.
  awaitable<void> finish(std::optional<int> exit_code);

  [[nodiscard]] const std::string& id() const noexcept { return run_.id; }
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_ + waiting_.size(); }
  // Behind what is in the history, or lost.
  [[nodiscard]] std::uint64_t settled() const noexcept { return settled_; }
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }
  // Until there is more in the history, or it has ended. False when the waiter was cancelled.
  awaitable<bool> wait() { return signal_.wait(); }

  // Somebody follows while it lives.
  class Follower {
   public:
    explicit Follower(std::shared_ptr<Log> log) : log_(std::move(log)) {
      ++log_->followers_;
      log_->pause_.cancel();
    }
    ~Follower() { --log_->followers_; }
    Follower(const Follower&) = delete;
    Follower& operator=(const Follower&) = delete;

   private:
    std::shared_ptr<Log> log_;
  };

 private:
  void write_soon();
  [[nodiscard]] std::string take_piece();
  static awaitable<void> write(std::shared_ptr<Log> self);

  boost::asio::any_io_executor executor_;
  control::History& history_;
  store::RunRecord run_;
  std::uint64_t offset_;     // behind what was taken for the history
  std::uint64_t settled_;    // behind what is in it, or lost
  std::uint64_t hurry_ = 0;  // somebody waits for what is before it
  std::string waiting_;
  Signal signal_;
  boost::asio::steady_timer pause_;
  std::int64_t since_trim_ = 0;
  std::size_t followers_ = 0;
  std::uint64_t lost_ = 0;  // bytes that the history did not take
  bool known_ = false;      // the run is in the history
  bool writing_ = false;
  bool finishing_ = false;
  bool ended_ = false;
};

// Pages through the pieces of a run.
class LogReader {
 public:
  LogReader(control::History& history, std::string run) : history_(history), run_(std::move(run)) {}
  // The next bytes that are in the history; empty when there are none now.
  awaitable<Result<std::string>> next();
  [[nodiscard]] std::int64_t offset() const noexcept { return offset_; }
  [[nodiscard]] const std::string& run() const noexcept { return run_; }

 private:
  control::History& history_;
  std::string run_;
  std::int64_t after_ = 0;
  std::int64_t offset_ = 0;
};

}  // namespace caisson::sandboxer
