// store/reader.h — looks into a database without changing it, also while a server writes to it.
// For the store's own waiting functions and for commands that work on the file. Each call is one
// look at one moment. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/anchor.h"
#include "store/sqlite.h"
#include "store/store.h"

namespace caisson::store {

// The columns in the order that row_of() reads.
inline constexpr std::string_view kAuditColumns =
    "sequence, time, tenant, actor, action, sandbox, object, outcome, detail, request_id, "
    "previous, hash";

class Reader {
 public:
  [[nodiscard]] static Result<Reader> open(const std::string& path);

  [[nodiscard]] Result<std::vector<AuditRow>> audit(const AuditQuery& query);
  [[nodiscard]] Result<std::vector<TokenRecord>> tokens();
  [[nodiscard]] Result<std::vector<SandboxRecord>> living();
  [[nodiscard]] Result<std::vector<FileRecord>> files(FileKind kind);
  [[nodiscard]] Result<std::vector<RunRecord>> runs(const RunQuery& query);
  [[nodiscard]] Result<std::optional<RunRecord>> run(std::string_view id);
  [[nodiscard]] Result<std::vector<RunPiece>> pieces(const PieceQuery& query);
  [[nodiscard]] Result<std::optional<SandboxRecord>> sandbox(std::string_view id);

  // Walks the whole chain and holds it against the anchors. A record that does not hold is a
  // Verdict; an Error is a file that cannot be read.
  [[nodiscard]] Result<Verdict> verify(const AnchorFile* anchors);

 private:
  explicit Reader(Database database) : database_(std::move(database)) {}
  // A database of an older version has no such tables before a writer has opened it.
  [[nodiscard]] Result<bool> is_of(std::int64_t version);
  Database database_;
};

// The last row of a chain.
[[nodiscard]] Result<ChainHead> read_head(Database& database);

// For a command: `anchor_path` may be empty, then only the chain itself is judged. The key is the
// one beside the database.
[[nodiscard]] Result<Verdict> verify_file(const std::string& path, const std::string& anchor_path);

}  // namespace caisson::store
