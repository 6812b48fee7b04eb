#include "store/ledger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "store/reader.h"
#include "store/rows.h"
#include "store/schema.h"
#include "sys/file.h"

namespace caisson::store {
namespace {

constexpr int kLogPagesMax = 4000;  // of 4 KiB: then the log is moved into the database
constexpr std::int64_t kPruneEvery = 1024;
constexpr unsigned kPrivate = 0600;

// SQLite would make the file with the mode that the umask leaves; its log takes the file's mode.
Result<void> make_private_file(const std::string& path) {
  const UniqueFd file =
      TRY(sys::open_at(AT_FDCWD, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NOCTTY, kPrivate));
  if (::fchmod(file.get(), kPrivate) != 0) return sys_failure("chmod " + path, errno);
  return {};
}

std::size_t statements_of(const Store::Batch& batch) noexcept {
  return batch.audit.size() + batch.sandboxes.size() + batch.tokens.size() +
         batch.forgotten_tokens.size() + batch.files.size() + batch.forgotten_files.size() +
         statements_of_runs(batch);
}

}  // namespace

Ledger::Ledger(Database database, const StoreOptions& options)
    : folder_(std::filesystem::path(options.path).parent_path().string()),
      reserve_bytes_(options.reserve_bytes),
      ended_records_max_(options.ended_records_max),
      log_pages_(std::make_unique<int>(0)),
      database_(std::move(database)),
      runs_(options),
      checkpoint_at_(kLogPagesMax) {
  if (folder_.empty()) folder_ = ".";
  database_.watch_log(log_pages_.get());
}

Result<std::unique_ptr<Ledger>> Ledger::open(const StoreOptions& options) {
  TRY(make_private_file(options.path));
  Database database = TRY(Database::open(options.path, OpenMode::ReadWrite));
  TRY_IN(options.path, prepare_schema(database));
  std::unique_ptr<Ledger> ledger(new Ledger(std::move(database), options));
  TRY_IN(options.path, ledger->prepare());
  return ledger;
}

Result<void> Ledger::prepare() {
  begin_ = TRY(database_.prepare("BEGIN IMMEDIATE"));
  commit_ = TRY(database_.prepare("COMMIT"));
  rollback_ = TRY(database_.prepare("ROLLBACK"));
  savepoint_ = TRY(database_.prepare("SAVEPOINT batch"));
  release_ = TRY(database_.prepare("RELEASE batch"));
  rollback_to_ = TRY(database_.prepare("ROLLBACK TO batch"));
  insert_audit_ =
      TRY(database_.prepare(fmt::format("INSERT INTO audit ({}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, "
                                        "?7, ?8, ?9, ?10, ?11, ?12)",
                                        kAuditColumns)));
  put_token_ = TRY(database_.prepare(
      "INSERT INTO tokens (id, sha256, tenant, label, scopes, created, expires, revoked, "
      "last_used, max_sandboxes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) "
      "ON CONFLICT (id) DO UPDATE SET sha256 = ?2, tenant = ?3, label = ?4, scopes = ?5, "
      "created = ?6, expires = ?7, revoked = ?8, last_used = ?9, max_sandboxes = ?10"));
  forget_token_ = TRY(database_.prepare("DELETE FROM tokens WHERE id = ?1"));
  put_sandbox_ = TRY(database_.prepare(
      "INSERT INTO sandboxes (id, tenant, token, state, created, ended, end_reason, spec) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) "
      "ON CONFLICT (id) DO UPDATE SET tenant = ?2, token = ?3, state = ?4, created = ?5, "
      "ended = ?6, end_reason = ?7, spec = ?8"));
  for (const FileKind kind : {FileKind::Image, FileKind::Snapshot, FileKind::Volume,
                              FileKind::Person, FileKind::Listing}) {
    const auto at = static_cast<std::size_t>(kind);
    put_file_[at] = TRY(database_.prepare(
        fmt::format("INSERT INTO {} (tenant, id, created, spec) VALUES (?1, ?2, ?3, ?4) "
                    "ON CONFLICT (tenant, id) DO UPDATE SET created = ?3, spec = ?4",
                    table_of(kind))));
    forget_file_[at] = TRY(database_.prepare(
        fmt::format("DELETE FROM {} WHERE tenant = ?1 AND id = ?2", table_of(kind))));
  }
  forget_ended_ = TRY(database_.prepare(
      "DELETE FROM sandboxes WHERE rowid IN (SELECT rowid FROM sandboxes WHERE state = 1 "
      "ORDER BY ended DESC LIMIT -1 OFFSET ?1)"));
  TRY(runs_.prepare(database_));
  head_ = TRY(read_head(database_));
  return forget_ended();
}

Result<void> Ledger::check_space() const {
  struct statvfs facts{};
  if (::statvfs(folder_.c_str(), &facts) != 0) return sys_failure("statvfs " + folder_, errno);
  const auto available =
      static_cast<std::int64_t>(facts.f_bavail) * static_cast<std::int64_t>(facts.f_frsize);
  if (available >= reserve_bytes_) return {};
  return failure(Errc::StoreFull,
                 fmt::format("the record cannot be kept: {} bytes are free where it is stored, and "
                             "{} are kept in reserve: free some space",
                             available, reserve_bytes_));
}

void Ledger::write(std::span<Entry> entries) {
  const ChainHead before = head_;
  Result<void> whole = check_space();
  if (whole) whole = write_all(entries);
  if (whole) return;
  if (database_.in_transaction()) (void)rollback_.run();
  head_ = before;
  for (Entry& entry : entries) entry.result = whole;
}

// An error here is one of the transaction; errors of one entry stay in the entry.
Result<void> Ledger::write_all(std::span<Entry> entries) {
  if (database_.in_transaction()) TRY(rollback_.run());  // that could not be undone the last time
  TRY(begin_.run());
  for (Entry& entry : entries) {
    // One statement is undone by SQLite itself.
    const bool several = statements_of(*entry.batch) > 1;
    const ChainHead before = head_;
    if (several) TRY(savepoint_.run());
    entry.result = apply(*entry.batch);
    if (!entry.result) {
      head_ = before;
      const bool lost = !database_.in_transaction() || entry.result.error().code == Errc::StoreFull;
      if (lost) return std::unexpected(entry.result.error());
      if (several) TRY(rollback_to_.run());
    }
    if (several) TRY(release_.run());
  }
  if (ended_since_ >= kPruneEvery) TRY(forget_ended());
  TRY(runs_.prune());
  return commit_.run();
}

Result<void> Ledger::apply(const Store::Batch& batch) {
  for (const SandboxRecord& record : batch.sandboxes) TRY(put(record));
  for (const TokenRecord& record : batch.tokens) TRY(put(record));
  for (const std::string& id : batch.forgotten_tokens) TRY(forget_token_.bind_text(1, id).run());
  for (const FileKey& key : batch.forgotten_files) TRY(forget(key));
  for (const FileRecord& record : batch.files) TRY(put(record));
  TRY(runs_.apply(batch));
  for (const AuditEvent& event : batch.audit) TRY(put(event));
  return {};
}

Result<void> Ledger::put(const AuditEvent& event) {
  ChainHead next;
  next.sequence = head_.sequence + 1;
  next.time = std::max(wall_now(), head_.time);  // a clock set back must not reorder the record
  next.hash = hasher_.hash(head_.hash, next.sequence, next.time, event);
  insert_audit_.bind(1, next.sequence)
      .bind(2, next.time)
      .bind_text(3, event.tenant)
      .bind_text(4, event.actor)
      .bind_text(5, event.action)
      .bind_text(6, event.sandbox)
      .bind_text(7, event.object)
      .bind(8, static_cast<std::int64_t>(event.outcome))
      .bind_text(9, event.detail)
      .bind_text(10, event.request_id)
      .bind_bytes(11, as_bytes(head_.hash))
      .bind_bytes(12, as_bytes(next.hash));
  TRY(insert_audit_.run());
  head_ = next;
  return {};
}

Result<void> Ledger::put(const TokenRecord& record) {
  return put_token_.bind_text(1, record.id)
      .bind_text(2, record.sha256)
      .bind_text(3, record.tenant)
      .bind_text(4, record.label)
      .bind(5, std::int64_t{record.scopes})
      .bind(6, record.created)
      .bind(7, record.expires)
      .bind(8, record.revoked)
      .bind(9, record.last_used)
      .bind(10, record.max_sandboxes)
      .run();
}

Result<void> Ledger::put(const SandboxRecord& record) {
  if (record.state == RecordState::Ended) ++ended_since_;
  return put_sandbox_.bind_text(1, record.id)
      .bind_text(2, record.tenant)
      .bind_text(3, record.token)
      .bind(4, static_cast<std::int64_t>(record.state))
      .bind(5, record.created)
      .bind(6, record.ended)
      .bind_text(7, record.end_reason)
      .bind_text(8, record.spec)
      .run();
}

Result<void> Ledger::put(const FileRecord& record) {
  return put_file_[static_cast<std::size_t>(record.key.kind)]
      .bind_text(1, record.key.tenant)
      .bind_text(2, record.key.id)
      .bind(3, record.created)
      .bind_text(4, record.spec)
      .run();
}

Result<void> Ledger::forget(const FileKey& key) {
  return forget_file_[static_cast<std::size_t>(key.kind)]
      .bind_text(1, key.tenant)
      .bind_text(2, key.id)
      .run();
}

Result<void> Ledger::forget_ended() {
  ended_since_ = 0;
  return forget_ended_.bind(1, ended_records_max_).run();
}

void Ledger::tidy() {
  if (*log_pages_ < kLogPagesMax) checkpoint_at_ = kLogPagesMax;
  if (*log_pages_ < checkpoint_at_) return;
  // A full disk or a reader of an old page may stop it: then it is tried again when the log has
  // grown as much once more. The rows are safe in the log.
  (void)database_.checkpoint();
  checkpoint_at_ = *log_pages_ + kLogPagesMax;
}

}  // namespace caisson::store
