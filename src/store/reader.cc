#include "store/reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/rows.h"
#include "store/schema.h"

namespace caisson::store {
namespace {

constexpr std::string_view kSandboxColumns =
    "id, tenant, token, state, created, ended, end_reason, spec";

constexpr std::string_view kRunColumns = "id, sandbox, command, exit_code, started";
constexpr std::int64_t kHistoryVersion = 3;

Result<std::string> audit_sql(const AuditQuery& query) {
  if (query.limit > kPageRowsMax) {
    return bad_field("limit", fmt::format("limit: {} rows are too many for one page: at most {}",
                                          query.limit, kPageRowsMax));
  }
  std::string sql = fmt::format("SELECT {} FROM audit WHERE sequence > ?1", kAuditColumns);
  if (query.before) sql += " AND sequence < ?2";
  if (query.tenant) sql += " AND tenant = ?3";
  // The index of sandboxes leaves out rows without one, so it is used only when this is said.
  if (query.sandbox)
    sql += query.sandbox->empty() ? " AND sandbox = ?4" : " AND sandbox = ?4 AND sandbox != ''";
  if (query.action)
    sql += query.action->ends_with('.') ? " AND action >= ?5 AND action < ?6" : " AND action = ?5";
  if (query.outcome) sql += " AND outcome = ?7";
  sql += query.before ? " ORDER BY sequence DESC LIMIT ?8" : " ORDER BY sequence LIMIT ?8";
  return sql;
}

}  // namespace

Result<Reader> Reader::open(const std::string& path) {
  Database database = TRY(Database::open(path, OpenMode::ReadOnly));
  TRY_IN(path, check_schema(database));
  return Reader(std::move(database));
}

Result<std::vector<AuditRow>> Reader::audit(const AuditQuery& query) {
  const std::string sql = TRY(audit_sql(query));
  Statement select = TRY(database_.prepare(sql));
  std::string prefix_end;  // "tool." ends before "tool/"
  select.bind(1, query.after);
  if (query.before) select.bind(2, *query.before);
  if (query.tenant) select.bind_text(3, *query.tenant);
  if (query.sandbox) select.bind_text(4, *query.sandbox);
  if (query.action) {
    select.bind_text(5, *query.action);
    if (query.action->ends_with('.')) {
      prefix_end = *query.action;
      prefix_end.back() = '.' + 1;
      select.bind_text(6, prefix_end);
    }
  }
  if (query.outcome) select.bind(7, static_cast<std::int64_t>(*query.outcome));
  select.bind(8, static_cast<std::int64_t>(query.limit));
  std::vector<AuditRow> rows;
  while (TRY(select.step())) rows.push_back(row_of(select));
  return rows;
}

Result<std::vector<TokenRecord>> Reader::tokens() {
  Statement select =
      TRY(database_.prepare("SELECT id, sha256, tenant, label, scopes, created, expires, revoked, "
                            "last_used, max_sandboxes FROM tokens ORDER BY created, id"));
  std::vector<TokenRecord> records;
  while (TRY(select.step())) records.push_back(token_of(select));
  return records;
}

Result<std::vector<SandboxRecord>> Reader::living() {
  Statement select = TRY(database_.prepare(fmt::format(
      "SELECT {} FROM sandboxes WHERE state != 1 ORDER BY created, id", kSandboxColumns)));
  std::vector<SandboxRecord> records;
  while (TRY(select.step())) records.push_back(sandbox_of(select));
  return records;
}

Result<bool> Reader::is_of(std::int64_t version) {
  const std::int64_t found = TRY(database_.integer("PRAGMA user_version"));
  return found >= version;
}

Result<std::vector<FileRecord>> Reader::files(FileKind kind) {
  std::vector<FileRecord> records;
  const bool there = TRY(is_of(kind == FileKind::Person || kind == FileKind::Listing ? 3 : 2));
  if (!there) return records;
  Statement select = TRY(database_.prepare(fmt::format(
      "SELECT tenant, id, created, spec FROM {} ORDER BY created, id", table_of(kind))));
  while (TRY(select.step())) records.push_back(file_of(kind, select));
  return records;
}

Result<std::vector<RunRecord>> Reader::runs(const RunQuery& query) {
  std::vector<RunRecord> records;
  const bool there = TRY(is_of(kHistoryVersion));
  if (!there) return records;
  const std::string_view order = query.newest_first ? "started DESC, id DESC" : "started, id";
  Statement select = TRY(database_.prepare(fmt::format(
      "SELECT {} FROM runs WHERE sandbox = ?1 ORDER BY {} LIMIT ?2", kRunColumns, order)));
  select.bind_text(1, query.sandbox);
  select.bind(2, static_cast<std::int64_t>(std::min(query.limit, kPageRowsMax)));
  while (TRY(select.step())) records.push_back(run_of(select));
  return records;
}

Result<std::optional<RunRecord>> Reader::run(std::string_view id) {
  const bool there = TRY(is_of(kHistoryVersion));
  if (!there) return std::nullopt;
  Statement select =
      TRY(database_.prepare(fmt::format("SELECT {} FROM runs WHERE id = ?1", kRunColumns)));
  select.bind_text(1, id);
  const bool found = TRY(select.step());
  if (!found) return std::nullopt;
  return run_of(select);
}

Result<std::vector<RunPiece>> Reader::pieces(const PieceQuery& query) {
  std::vector<RunPiece> pieces;
  const bool there = TRY(is_of(kHistoryVersion));
  if (!there) return pieces;
  Statement select =
      TRY(database_.prepare("SELECT id, run, stream, content, time, \"offset\" FROM run_pieces "
                            "WHERE run = ?1 AND id > ?2 "
                            "ORDER BY id LIMIT ?3"));
  select.bind_text(1, query.run);
  select.bind(2, query.after);
  select.bind(3, static_cast<std::int64_t>(std::min(query.limit, kPageRowsMax)));
  const std::size_t most = std::min(query.bytes, kPiecePageBytesMax);
  std::size_t bytes = 0;
  while ((pieces.empty() || bytes < most) && TRY(select.step())) {
    pieces.push_back(piece_of(select));
    bytes += pieces.back().content.size();
  }
  return pieces;
}

Result<std::optional<SandboxRecord>> Reader::sandbox(std::string_view id) {
  Statement select = TRY(
      database_.prepare(fmt::format("SELECT {} FROM sandboxes WHERE id = ?1", kSandboxColumns)));
  select.bind_text(1, id);
  const bool found = TRY(select.step());
  if (!found) return std::nullopt;
  return sandbox_of(select);
}

Result<ChainHead> read_head(Database& database) {
  Statement select = TRY(
      database.prepare("SELECT sequence, time, hash FROM audit ORDER BY sequence DESC LIMIT 1"));
  ChainHead head;
  const bool found = TRY(select.step());
  if (!found) return head;
  head.sequence = select.integer(0);
  head.time = select.integer(1);
  const auto hash = digest_from_bytes(select.text(2));
  // A damaged last row is verify()'s to report. The record goes on, and the break stays visible.
  if (hash) head.hash = *hash;
  return head;
}

Result<Verdict> verify_file(const std::string& path, const std::string& anchor_path) {
  AnchorFile anchors;
  // Read before the rows: what is written meanwhile only adds rows.
  if (!anchor_path.empty()) {
    const std::string key = TRY(read_anchor_key(anchor_key_path(path)));
    anchors = TRY(read_anchors(anchor_path, key));
  }
  Reader reader = TRY(Reader::open(path));
  return reader.verify(anchor_path.empty() ? nullptr : &anchors);
}

}  // namespace caisson::store
