// store/run_ledger.h — what was run, as the writing connection keeps it. Belongs to the ledger and
// works inside its transactions. What there is of them is bounded by pruning from time to time: a
// tenant who prints for ever must not fill the disk, because then nothing at all could be written.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "store/sqlite.h"
#include "store/store.h"

namespace caisson::store {

inline constexpr std::size_t kRunsPruneEvery = 1024;        // so many more there may be
inline constexpr std::size_t kRunsPruneBytes = 8UL << 20U;  // the same, of output

class RunLedger {
 public:
  explicit RunLedger(const StoreOptions& options)
      : runs_max_(options.runs_max),
        of_sandbox_max_(options.runs_of_sandbox_max),
        output_bytes_max_(options.run_output_bytes_max),
        command_bytes_max_(options.run_command_bytes_max) {}

  [[nodiscard]] Result<void> prepare(Database& database);
  [[nodiscard]] Result<void> apply(const Store::Batch& batch);
  [[nodiscard]] Result<void> prune();  // when it is time

 private:
  [[nodiscard]] Result<void> put(const RunRecord& record);
  [[nodiscard]] Result<void> put(const RunPiece& piece);
  [[nodiscard]] Result<void> trim(const RunTrim& wish);
  [[nodiscard]] Result<void> forget_oldest();
  // `kept` bytes by `size`; the oldest rows go by `remove`, some at a time.
  [[nodiscard]] static Result<void> shrink(Statement& size, Statement& remove, std::int64_t kept);

  std::int64_t runs_max_;
  std::int64_t of_sandbox_max_;
  std::int64_t output_bytes_max_;
  std::int64_t command_bytes_max_;
  Statement put_run_, put_piece_, sizes_, cut_, forget_, forget_old_, forget_old_of_;
  Statement output_size_, command_size_, remove_pieces_, remove_runs_;
  std::size_t bytes_since_ = 0;    // of output, written since the last pruning
  std::size_t since_ = 0;          // runs written since the last pruning
  std::set<std::string> touched_;  // their sandboxes
};

// How many statements they are, at least.
[[nodiscard]] std::size_t statements_of_runs(const Store::Batch& batch) noexcept;

}  // namespace caisson::store
