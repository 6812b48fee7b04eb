// store/ledger.h — the writing connection: batches in, one transaction for all of them. Belongs to
// the writer's thread.
#pragma once

#include <array>
#include <span>
#include <string>

#include "store/audit_chain.h"
#include "store/run_ledger.h"
#include "store/sqlite.h"
#include "store/store.h"

namespace caisson::store {

inline constexpr std::size_t kFileKinds = 5;

class Ledger {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Ledger>> open(const StoreOptions& options);

  struct Entry {
    const Store::Batch* batch = nullptr;
    Result<void> result{};
  };
  // All entries in one transaction, durable when it returns. An entry that fails is undone alone; a
  // transaction that fails is undone whole, and each entry says why.
  void write(std::span<Entry> entries);

  // Keeps the write-ahead log short. Called after the answers, as nobody waits for it.
  void tidy();

  [[nodiscard]] const ChainHead& head() const noexcept { return head_; }

 private:
  Ledger(Database database, const StoreOptions& options);
  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] Result<void> check_space() const;
  [[nodiscard]] Result<void> write_all(std::span<Entry> entries);
  [[nodiscard]] Result<void> apply(const Store::Batch& batch);
  [[nodiscard]] Result<void> put(const AuditEvent& event);
  [[nodiscard]] Result<void> put(const TokenRecord& record);
  [[nodiscard]] Result<void> put(const SandboxRecord& record);
  [[nodiscard]] Result<void> put(const FileRecord& record);
  [[nodiscard]] Result<void> forget(const FileKey& key);
  [[nodiscard]] Result<void> forget_ended();

  std::string folder_;
  std::int64_t reserve_bytes_;
  std::int64_t ended_records_max_;
  std::unique_ptr<int> log_pages_;  // told by the connection, which goes first
  Database database_;
  Statement begin_, commit_, rollback_, savepoint_, release_, rollback_to_;
  Statement insert_audit_, put_token_, forget_token_, put_sandbox_, forget_ended_;
  std::array<Statement, kFileKinds> put_file_, forget_file_;  // by FileKind
  RunLedger runs_;
  ChainHasher hasher_;
  ChainHead head_;
  int checkpoint_at_;
  std::int64_t ended_since_ = 0;  // records of ended sandboxes written since the last pruning
};

}  // namespace caisson::store
