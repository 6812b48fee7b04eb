// doors/sandboxer/ledger.h — what was run, and how rows changed, on its way into the history. A
// caller is not kept waiting for the disk once more: the audit has what he did already. What comes
// within a moment is written together, so that the next caller's audit seldom waits for it. Whoever
// reads the history of a sandbox waits until what was told before is in it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/history.h"
#include "doors/sandboxer/signal.h"

namespace caisson::sandboxer {

inline constexpr std::size_t kLedgerBytesMax = 16UL << 20U;  // that wait for the disk
inline constexpr milliseconds kLedgerDelay{50};

class Ledger : public std::enable_shared_from_this<Ledger> {
 public:
  Ledger(boost::asio::any_io_executor executor, control::History& history)
      : executor_(std::move(executor)), history_(history), signal_(executor_), pause_(executor_) {}

  // Waits only while too much waits already. What is told is written in its order.
  awaitable<void> put(std::string sandbox, std::optional<store::RunRecord> run,
                      std::vector<store::RunPiece> pieces);
  // The newest of a row counts.
  void put_listing(control::Listing listing);
  // Somebody writes a newer one himself, or the row goes: what has not begun is not written.
  void drop_listing(const std::string& id) { listings_.erase(id); }
  awaitable<void> settle(std::string sandbox);
  // The server ends: nothing waits for company any more.
  void hurry();
  [[nodiscard]] std::uint64_t failures() const noexcept { return failures_; }

 private:
  struct Entry {
    std::string sandbox;
    std::optional<store::RunRecord> run;
    std::vector<store::RunPiece> pieces;
    std::size_t bytes = 0;
  };
  void write_soon();
  void done(const Result<void>& written);
  static awaitable<void> write(std::shared_ptr<Ledger> self);
  static awaitable<void> write_entry(std::shared_ptr<Ledger> self, Entry entry);
  static awaitable<void> write_listing(std::shared_ptr<Ledger> self, control::Listing listing);

  boost::asio::any_io_executor executor_;
  control::History& history_;
  Signal signal_;
  boost::asio::steady_timer pause_;
  std::deque<Entry> entries_;
  std::map<std::string, control::Listing, std::less<>> listings_;
  std::map<std::string, std::size_t, std::less<>> waiting_;  // entries of each sandbox
  std::size_t bytes_ = 0;
  std::size_t under_way_ = 0;
  std::uint64_t failures_ = 0;
  bool writing_ = false;
  bool hurry_ = false;
};

}  // namespace caisson::sandboxer
