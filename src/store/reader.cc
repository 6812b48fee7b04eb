#include "store/reader.h"

#include <fmt/format.h>

#include "store/rows.h"
#include "store/schema.h"

namespace caisson::store {
namespace {

constexpr std::string_view kSandboxColumns =
    "id, tenant, token, state, created, ended, end_reason, spec";

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

Result<std::vector<FileRecord>> Reader::files(FileKind kind) {
  // A database of an older version has no such tables before a writer has opened it.
  const std::int64_t version = TRY(database_.integer("PRAGMA user_version"));
  std::vector<FileRecord> records;
  if (version < 2) return records;
  Statement select = TRY(database_.prepare(fmt::format(
      "SELECT tenant, id, created, spec FROM {} ORDER BY created, id", table_of(kind))));
  while (TRY(select.step())) records.push_back(file_of(kind, select));
  return records;
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
