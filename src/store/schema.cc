#include "store/schema.h"

#include <fmt/format.h>

namespace caisson::store {
namespace {

// The audit only grows at its end. The triggers stop mistakes and honest tools; whoever removes
// them and changes rows is found by the chain of hashes. The third one is there because REPLACE
// deletes a row without asking the second.
constexpr const char* kTables = R"sql(
CREATE TABLE audit (
  sequence   INTEGER PRIMARY KEY,
  time       INTEGER NOT NULL,
  tenant     TEXT NOT NULL,
  actor      TEXT NOT NULL,
  action     TEXT NOT NULL,
  sandbox    TEXT NOT NULL,
  object     TEXT NOT NULL,
  outcome    INTEGER NOT NULL,
  detail     TEXT NOT NULL,
  request_id TEXT NOT NULL,
  previous   BLOB NOT NULL,
  hash       BLOB NOT NULL
) STRICT;
CREATE INDEX audit_of_sandbox ON audit (sandbox) WHERE sandbox != '';
CREATE INDEX audit_of_tenant ON audit (tenant);

CREATE TABLE tokens (
  id            TEXT PRIMARY KEY NOT NULL,
  sha256        TEXT NOT NULL,
  tenant        TEXT NOT NULL,
  label         TEXT NOT NULL,
  scopes        INTEGER NOT NULL,
  created       INTEGER NOT NULL,
  expires       INTEGER,
  revoked       INTEGER,
  last_used     INTEGER,
  max_sandboxes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sandboxes (
  id         TEXT PRIMARY KEY NOT NULL,
  tenant     TEXT NOT NULL,
  token      TEXT NOT NULL,
  state      INTEGER NOT NULL,
  created    INTEGER NOT NULL,
  ended      INTEGER,
  end_reason TEXT NOT NULL,
  spec       TEXT NOT NULL
) STRICT;
CREATE INDEX sandboxes_ended ON sandboxes (ended) WHERE state = 1;
)sql";

// What came with version 2: things that files belong to, and sandboxes that are stopped (state 2),
// which the index of the living ones of version 1 did not hold.
constexpr const char* kFileTables = R"sql(
DROP INDEX IF EXISTS sandboxes_living;
CREATE INDEX sandboxes_living ON sandboxes (created) WHERE state != 1;
CREATE TABLE images (
  tenant  TEXT NOT NULL,
  id      TEXT NOT NULL,
  created INTEGER NOT NULL,
  spec    TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE snapshots (
  tenant  TEXT NOT NULL,
  id      TEXT NOT NULL,
  created INTEGER NOT NULL,
  spec    TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE volumes (
  tenant  TEXT NOT NULL,
  id      TEXT NOT NULL,
  created INTEGER NOT NULL,
  spec    TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
)sql";

// What came with version 3: who tenants are, how sandboxes stand in a list that forgets none, and
// what was run in them. The content of a piece is a blob because the length of one is known without
// reading it. A run takes its pieces along, whoever removes it. How much all of it is stands in one
// row, so that nobody has to add it up; 64 bytes stand for what a row costs beside its content.
constexpr const char* kHistoryTables = R"sql(
CREATE TABLE persons (
  tenant  TEXT NOT NULL,
  id      TEXT NOT NULL,
  created INTEGER NOT NULL,
  spec    TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE listings (
  tenant  TEXT NOT NULL,
  id      TEXT NOT NULL,
  created INTEGER NOT NULL,
  spec    TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE runs (
  id        TEXT PRIMARY KEY NOT NULL,
  sandbox   TEXT NOT NULL,
  command   TEXT NOT NULL,
  exit_code INTEGER,
  started   INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_of_sandbox ON runs (sandbox, started, id);
CREATE INDEX runs_by_age ON runs (started);
CREATE TABLE run_pieces (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  run      TEXT NOT NULL,
  stream   INTEGER NOT NULL,
  content  BLOB NOT NULL,
  time     INTEGER NOT NULL,
  "offset" INTEGER NOT NULL
) STRICT;
CREATE INDEX pieces_of_run ON run_pieces (run, id);
CREATE TABLE history_size (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  output   INTEGER NOT NULL,
  commands INTEGER NOT NULL
) STRICT;
INSERT INTO history_size VALUES (1, 0, 0);
CREATE TRIGGER pieces_are_counted AFTER INSERT ON run_pieces
BEGIN UPDATE history_size SET output = output + 64 + length(NEW.content); END;
CREATE TRIGGER pieces_are_counted_out AFTER DELETE ON run_pieces
BEGIN UPDATE history_size SET output = output - 64 - length(OLD.content); END;
CREATE TRIGGER runs_are_counted AFTER INSERT ON runs
BEGIN UPDATE history_size SET commands = commands + 64 + length(CAST(NEW.command AS BLOB)); END;
CREATE TRIGGER runs_are_counted_anew AFTER UPDATE OF command ON runs
BEGIN UPDATE history_size SET commands = commands + length(CAST(NEW.command AS BLOB))
  - length(CAST(OLD.command AS BLOB)); END;
CREATE TRIGGER runs_take_their_pieces AFTER DELETE ON runs
BEGIN
  DELETE FROM run_pieces WHERE run = OLD.id;
  UPDATE history_size SET commands = commands - 64 - length(CAST(OLD.command AS BLOB));
END;
)sql";

constexpr const char* kTriggers = R"sql(
CREATE TRIGGER IF NOT EXISTS audit_keeps_rows BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only: a row cannot be changed'); END;
CREATE TRIGGER IF NOT EXISTS audit_loses_none BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only: a row cannot be removed'); END;
CREATE TRIGGER IF NOT EXISTS audit_grows_at_its_end BEFORE INSERT ON audit
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM audit)
BEGIN SELECT RAISE(ABORT, 'the audit is append-only: a row goes to its end'); END;
)sql";

Result<void> check_version(std::int64_t version) {
  if (version <= kSchemaVersion) return {};
  return failure(Errc::Unsupported,
                 fmt::format("the database has schema version {}, this program knows {}: use the "
                             "program that wrote it, or a newer one",
                             version, kSchemaVersion));
}

// Each step leads from one version to the next, in the transaction of the whole.
Result<void> upgrade(Database& database, std::int64_t version) {
  if (version < 1) TRY(database.execute(kTables));
  if (version < 2) TRY(database.execute(kFileTables));
  if (version < 3) TRY(database.execute(kHistoryTables));
  return database.execute(fmt::format("PRAGMA user_version = {}", kSchemaVersion).c_str());
}

Result<void> migrate(Database& database) {
  const std::int64_t version = TRY(database.integer("PRAGMA user_version"));
  TRY(check_version(version));
  if (version < kSchemaVersion) TRY(upgrade(database, version));
  return database.execute(kTriggers);
}

}  // namespace

Result<void> prepare_schema(Database& database) {
  // Judged before the first write: a newer version's file is not even switched to WAL.
  const std::int64_t version = TRY(database.integer("PRAGMA user_version"));
  TRY(check_version(version));
  TRY(database.execute("PRAGMA journal_mode = WAL"));
  TRY(database.execute("PRAGMA synchronous = FULL"));
  TRY(database.execute("PRAGMA wal_autocheckpoint = 0"));  // the writer does it, after its answers
  TRY(database.execute("PRAGMA journal_size_limit = 67108864"));
  TRY(database.execute("PRAGMA temp_store = MEMORY"));
  TRY(database.execute("BEGIN IMMEDIATE"));
  const Result<void> migrated = migrate(database);
  if (!migrated) {
    if (database.in_transaction()) (void)database.execute("ROLLBACK");
    return migrated;
  }
  return database.execute("COMMIT");
}

Result<void> check_schema(Database& database) {
  const std::int64_t version = TRY(database.integer("PRAGMA user_version"));
  if (version == 0) return failure(Errc::NotFound, "the file is not a database of caisson");
  return check_version(version);
}

}  // namespace caisson::store
