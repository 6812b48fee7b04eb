#include "store/run_ledger.h"

namespace caisson::store {
namespace {

constexpr std::size_t kRowBytes = 64;  // what a row costs beside its content, as the schema counts

}  // namespace

std::size_t statements_of_runs(const Store::Batch& batch) noexcept {
  return batch.runs.size() + batch.pieces.size() + 2 * batch.trims.size() +
         batch.forgotten_runs.size();
}

Result<void> RunLedger::prepare(Database& database) {
  put_run_ = TRY(database.prepare(
      "INSERT INTO runs (id, sandbox, command, exit_code, started) VALUES (?1, ?2, ?3, ?4, ?5) "
      "ON CONFLICT (id) DO UPDATE SET sandbox = ?2, command = ?3, exit_code = ?4, started = ?5"));
  // A piece of a run that was forgotten meanwhile would never be removed again.
  put_piece_ = TRY(database.prepare(
      "INSERT INTO run_pieces (run, stream, content, time, \"offset\") SELECT ?1, ?2, ?3, ?4, ?5 "
      "WHERE EXISTS (SELECT 1 FROM runs WHERE id = ?1)"));
  sizes_ = TRY(database.prepare(
      "SELECT id, length(content) FROM run_pieces WHERE run = ?1 ORDER BY id DESC"));
  cut_ = TRY(database.prepare("DELETE FROM run_pieces WHERE run = ?1 AND id <= ?2"));
  forget_ = TRY(database.prepare("DELETE FROM runs WHERE sandbox = ?1"));
  forget_old_ =
      TRY(database.prepare("DELETE FROM runs WHERE rowid IN "
                           "(SELECT rowid FROM runs ORDER BY started DESC LIMIT -1 OFFSET ?1)"));
  forget_old_of_ = TRY(
      database.prepare("DELETE FROM runs WHERE rowid IN (SELECT rowid FROM runs WHERE sandbox = ?1 "
                       "ORDER BY started DESC, id DESC LIMIT -1 OFFSET ?2)"));
  output_size_ = TRY(database.prepare("SELECT output FROM history_size"));
  command_size_ = TRY(database.prepare("SELECT commands FROM history_size"));
  remove_pieces_ = TRY(database.prepare(
      "DELETE FROM run_pieces WHERE id IN (SELECT id FROM run_pieces ORDER BY id LIMIT 64)"));
  remove_runs_ = TRY(database.prepare(
      "DELETE FROM runs WHERE rowid IN (SELECT rowid FROM runs ORDER BY started LIMIT 64)"));
  return forget_oldest();
}

Result<void> RunLedger::apply(const Store::Batch& batch) {
  for (const std::string& sandbox : batch.forgotten_runs) TRY(forget_.bind_text(1, sandbox).run());
  for (const RunRecord& record : batch.runs) TRY(put(record));
  for (const RunPiece& piece : batch.pieces) TRY(put(piece));
  for (const RunTrim& wish : batch.trims) TRY(trim(wish));
  return {};
}

Result<void> RunLedger::put(const RunRecord& record) {
  ++since_;
  touched_.insert(record.sandbox);
  return put_run_.bind_text(1, record.id)
      .bind_text(2, record.sandbox)
      .bind_text(3, record.command)
      .bind(4, record.exit_code)
      .bind(5, record.started)
      .run();
}

Result<void> RunLedger::put(const RunPiece& piece) {
  bytes_since_ += kRowBytes + piece.content.size();
  return put_piece_.bind_text(1, piece.run)
      .bind(2, piece.stream)
      .bind_bytes(3, piece.content)
      .bind(4, piece.time)
      .bind(5, piece.offset)
      .run();
}

// The newest that fit stay; the first that does not, and all before it, go.
Result<void> RunLedger::trim(const RunTrim& wish) {
  sizes_.bind_text(1, wish.run);
  std::int64_t bytes = 0;
  std::size_t pieces = 0;
  std::int64_t last = 0;
  Result<bool> found = sizes_.step();
  while (found && *found && last == 0) {
    bytes += sizes_.integer(1);
    if (bytes > wish.keep_bytes || ++pieces > kRunPiecesMax) last = sizes_.integer(0);
    if (last == 0) found = sizes_.step();
  }
  sizes_.reset();
  if (!found) return std::unexpected(std::move(found).error());
  if (last == 0) return {};
  return cut_.bind_text(1, wish.run).bind(2, last).run();
}

Result<void> RunLedger::prune() {
  if (since_ < kRunsPruneEvery && bytes_since_ < kRunsPruneBytes) return {};
  for (const std::string& sandbox : touched_)
    TRY(forget_old_of_.bind_text(1, sandbox).bind(2, of_sandbox_max_).run());
  TRY(forget_oldest());
  since_ = bytes_since_ = 0;
  touched_.clear();
  return {};
}

Result<void> RunLedger::forget_oldest() {
  TRY(forget_old_.bind(1, runs_max_).run());
  TRY(shrink(command_size_, remove_runs_, command_bytes_max_));
  return shrink(output_size_, remove_pieces_, output_bytes_max_);
}

Result<void> RunLedger::shrink(Statement& size, Statement& remove, std::int64_t kept) {
  for (std::int64_t before = 0;;) {
    const Result<bool> found = size.step();
    const std::int64_t now = found && *found ? size.integer(0) : 0;
    size.reset();
    if (!found) return std::unexpected(found.error());
    // A number that does not fall is no reason to go on for ever.
    if (now <= kept || now == before) return {};
    before = now;
    TRY(remove.run());
  }
}

}  // namespace caisson::store
