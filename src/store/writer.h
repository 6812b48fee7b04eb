// store/writer.h — the one thread that writes. Callers put a batch into the queue and go on; the
// thread takes all that waits, writes it as one transaction, and answers. While one fsync runs the
// next group gathers, so many waiters cost the disk little more than one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "store/anchor.h"
#include "store/ledger.h"
#include "store/store.h"

namespace caisson::store {

inline constexpr std::size_t kGroupMax = 4096;  // batches in one transaction
inline constexpr seconds kAnchorEveryMin{1};

class Writer {
 public:
  Writer(std::unique_ptr<Ledger> ledger, std::optional<AnchorWriter> anchor, seconds anchor_every);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer();  // writes what waits, then the last anchor

  void write(Store::Batch batch, Store::Done done);
  [[nodiscard]] Store::Counters counters() const;

 private:
  struct Job {
    Store::Batch batch;
    Store::Done done;
    std::size_t bytes = 0;
  };

  [[nodiscard]] Result<void> enqueue(Store::Batch& batch, Store::Done& done);
  void run();
  [[nodiscard]] std::vector<Job> next_group();  // empty: it is time for an anchor, or for the end
  void write_group(std::vector<Job>& group);
  void write_anchor();

  std::unique_ptr<Ledger> ledger_;
  std::optional<AnchorWriter> anchor_;
  seconds anchor_every_;
  TimePoint anchor_due_;
  std::int64_t anchored_ = -1;  // rows in the last anchor

  mutable std::mutex mutex_;  // guards the next four
  std::condition_variable wake_;
  std::vector<Job> queue_;
  std::size_t queued_bytes_ = 0;
  bool stopping_ = false;

  std::atomic<std::uint64_t> rows_{0};
  std::atomic<std::uint64_t> commits_{0};
  std::atomic<std::uint64_t> failures_{0};
  std::atomic<std::uint64_t> unwritten_{0};
  std::thread thread_;  // last: it uses all the others
};

}  // namespace caisson::store
