// store — what must outlive the server: the audit, the tokens, the sandboxes' records. SQLite.
// Start here. One writer thread commits in groups, so that a row is durable before anybody is
// answered and a hundred waiters share one fsync. The audit is a chain of hashes (audit_chain.h):
// a changed, removed or reordered row is found and named. Never here: HTTP, sandboxes, decisions.
//
// Nothing here blocks a caller of the first kind of functions (post-like: they take a `Done`);
// the second kind (they return a Result) wait for the disk and belong on a worker thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace caisson::store {

inline constexpr std::size_t kDetailBytesMax = 16UL * 1024;
inline constexpr std::size_t kQueueMax = 16384;  // writes that wait; beyond it: Exhausted at once
inline constexpr std::size_t kQueueBytesMax = 64UL << 20U;  // of all of them together
inline constexpr std::size_t kPageRowsMax = 1000;
inline constexpr std::size_t kObjectBytesMax = 4096;  // an event's object is cut to it
inline constexpr std::size_t kNameBytesMax = 256;     // tenant, actor, action, ids, labels
inline constexpr std::size_t kFileIdBytesMax = 1024;  // an image's reference is long
inline constexpr std::size_t kSpecBytesMax = 4UL << 20U;
inline constexpr std::size_t kRunCommandBytesMax = 64UL * 1024;
inline constexpr std::size_t kRunPieceBytesMax = 1UL << 20U;
inline constexpr std::size_t kRunPiecesMax = 16384;            // of one run, that a trim leaves
inline constexpr std::size_t kPiecePageBytesMax = 8UL << 20U;  // a page of pieces ends behind it

// Microseconds since 1970, UTC.
using WallTime = std::int64_t;
[[nodiscard]] WallTime wall_now();
[[nodiscard]] std::string to_rfc3339(WallTime time);  // 2026-11-15T08:20:23.123456Z

enum class Outcome : std::uint8_t { Allowed, Denied, Failed };
[[nodiscard]] std::string_view to_string(Outcome outcome) noexcept;

// What somebody did, or wanted to.
struct AuditEvent {
  std::string tenant;
  std::string actor;    // token id, "open" in open mode, "server", "launcher"
  std::string action;   // "sandbox.create", "tool.shell_exec", "file.write", "login", …
  std::string sandbox;  // id, or empty
  std::string object;   // path, command, token id: what it was about, cut to 4 KiB
  Outcome outcome = Outcome::Allowed;
  std::string detail;  // a JSON object of at most kDetailBytesMax, or empty
  std::string request_id;

  friend bool operator==(const AuditEvent&, const AuditEvent&) = default;
};

struct AuditRow {
  std::int64_t sequence = 0;  // from 1, without a gap
  WallTime time = 0;
  AuditEvent event;
  std::string previous;  // hash of the row before, 64 hex digits
  std::string hash;      // of this row's canonical form and `previous`

  friend bool operator==(const AuditRow&, const AuditRow&) = default;
};

struct AuditQuery {
  std::optional<std::string> tenant;  // none: of all, for an admin
  std::optional<std::string> sandbox;
  std::optional<std::string> action;  // exact, or a prefix that ends in '.'
  std::optional<Outcome> outcome;
  std::int64_t after = 0;              // rows with a greater sequence, oldest first
  std::optional<std::int64_t> before;  // set: rows with a smaller one, newest first
  std::size_t limit = 100;             // at most kPageRowsMax
};

struct Verdict {
  bool intact = false;
  std::int64_t rows = 0;
  std::string head;                     // hash of the last row
  std::optional<std::int64_t> bad_row;  // the first one that is wrong
  std::string reason;                   // "row 17 was changed", "row 18 is missing", …
};

enum class Scope : std::uint8_t { Read = 1, Use = 2, Create = 4, Admin = 8 };

struct TokenRecord {
  std::string id;      // public: 12 characters of base32
  std::string sha256;  // of the secret part, 64 hex digits
  std::string tenant;
  std::string label;
  std::uint8_t scopes = 0;  // Scope, or'ed
  WallTime created = 0;
  std::optional<WallTime> expires;
  std::optional<WallTime> revoked;
  std::optional<WallTime> last_used;  // to the minute
  std::int64_t max_sandboxes = 0;     // 0: the server's own limit

  friend bool operator==(const TokenRecord&, const TokenRecord&) = default;
};

enum class RecordState : std::uint8_t {
  Living,
  Ended,
  Stopped,  // it can be started again
};

struct SandboxRecord {
  std::string id;
  std::string tenant;
  std::string token;  // who created it
  RecordState state = RecordState::Living;
  WallTime created = 0;
  std::optional<WallTime> ended;
  std::string end_reason;
  std::string spec;  // JSON: what control needs to go on with it after a restart

  friend bool operator==(const SandboxRecord&, const SandboxRecord&) = default;
};

// A thing of one tenant that is kept as JSON of control's: what files belong to, who a tenant is,
// and how a sandbox stands in the list of a door that forgets none.
enum class FileKind : std::uint8_t { Image, Snapshot, Volume, Person, Listing };

struct FileKey {
  FileKind kind = FileKind::Image;
  std::string tenant;
  std::string id;  // reference, snapshot's id, volume's name

  friend bool operator==(const FileKey&, const FileKey&) = default;
};

struct FileRecord {
  FileKey key;
  WallTime created = 0;
  std::string spec;  // JSON of control's

  friend bool operator==(const FileRecord&, const FileRecord&) = default;
};

// What was run in a sandbox, for clients who look back, also when it is gone. It is no audit: the
// oldest of it makes room.
struct RunRecord {
  std::string id;
  std::string sandbox;
  std::string command;
  std::optional<std::int64_t> exit_code;  // none: it runs, or nobody saw its end
  WallTime started = 0;
};

struct RunPiece {
  std::int64_t id = 0;  // rises within a store; given when it is written
  std::string run;
  std::int64_t stream = 1;  // 1: standard output, 2: standard error
  std::string content;      // valid UTF-8
  WallTime time = 0;
  std::int64_t offset = 0;  // in its stream, behind its last byte
};

// The oldest pieces of a run beyond so many bytes, or kRunPiecesMax, are removed.
struct RunTrim {
  std::string run;
  std::int64_t keep_bytes = 0;
};

struct RunQuery {
  std::string sandbox;
  bool newest_first = false;
  std::size_t limit = 100;  // at most kPageRowsMax
};

struct PieceQuery {
  std::string run;
  std::int64_t after = 0;   // those with a greater id, oldest first
  std::size_t limit = 100;  // at most kPageRowsMax; large pieces make a shorter page, never none
  std::size_t bytes = kPiecePageBytesMax;  // at most that; the page ends behind it
};

struct StoreOptions {
  std::string path;  // of the database; made with mode 0600
  std::string
      anchor_path;  // heads of the audit are appended here from time to time; empty: nowhere
  seconds anchor_every{60};
  std::int64_t reserve_bytes = 16LL << 20U;  // free space below which nothing is taken any more
  std::int64_t ended_records_max =
      100'000;                        // sandboxes that ended; the oldest beyond are forgotten
  std::int64_t runs_max = 1'000'000;  // the oldest beyond are forgotten, with their pieces
  std::int64_t runs_of_sandbox_max = 10'000;  // the same, of one sandbox
  // Of all runs together, more or less: the oldest output makes room, and the oldest runs.
  std::int64_t run_output_bytes_max = 2LL << 30U;
  std::int64_t run_command_bytes_max = 256LL << 20U;
};

class Store {
 public:
  // Called once, on the writer's thread: durable, or why not. What is refused at once (a full
  // queue, a field that is too long, a store that closes) is told from inside write(). Must not
  // throw; may call write().
  using Done = std::function<void(Result<void>)>;

  [[nodiscard]] static Result<std::unique_ptr<Store>> open(StoreOptions options);
  virtual ~Store() = default;  // writes what waits, then closes
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // --- post-like. All that one call carries is committed together or not at all.
  struct Batch {
    std::vector<AuditEvent> audit;
    std::vector<SandboxRecord> sandboxes;       // inserted, or replaced by id
    std::vector<TokenRecord> tokens;            // the same
    std::vector<std::string> forgotten_tokens;  // ids, removed
    std::vector<FileRecord> files{};            // inserted, or replaced by key
    std::vector<FileKey> forgotten_files{};     // removed
    std::vector<RunRecord> runs{};              // inserted, or replaced by id
    std::vector<RunPiece> pieces{};             // appended, to runs that are kept
    std::vector<RunTrim> trims{};
    std::vector<std::string> forgotten_runs{};  // of these sandboxes, with their pieces
  };
  virtual void write(Batch batch, Done done) = 0;

  // --- these wait for the disk.
  [[nodiscard]] virtual Result<std::vector<AuditRow>> audit(const AuditQuery& query) = 0;
  [[nodiscard]] virtual Result<Verdict> verify() = 0;
  [[nodiscard]] virtual Result<std::vector<TokenRecord>> tokens() = 0;
  // Those that have not ended: the stopped ones, too.
  [[nodiscard]] virtual Result<std::vector<SandboxRecord>> living() = 0;
  // Of all tenants, the oldest first. A store that keeps none has none.
  [[nodiscard]] virtual Result<std::vector<FileRecord>> files(FileKind /*kind*/) {
    return std::vector<FileRecord>();
  }
  // A store that keeps none has none.
  [[nodiscard]] virtual Result<std::vector<RunRecord>> runs(const RunQuery& /*query*/) {
    return std::vector<RunRecord>();
  }
  [[nodiscard]] virtual Result<std::optional<RunRecord>> run(std::string_view /*id*/) {
    return std::optional<RunRecord>();
  }
  [[nodiscard]] virtual Result<std::vector<RunPiece>> pieces(const PieceQuery& /*query*/) {
    return std::vector<RunPiece>();
  }
  [[nodiscard]] virtual Result<std::optional<SandboxRecord>> sandbox(std::string_view id) = 0;
  [[nodiscard]] virtual Result<void> flush() = 0;

  struct Counters {
    std::uint64_t rows = 0;
    std::uint64_t commits = 0;
    std::uint64_t failures = 0;
    std::size_t waiting = 0;
    std::uint64_t unwritten = 0;  // rows of the audit that came here and could not be written
  };
  [[nodiscard]] virtual Counters counters() const = 0;
};

}  // namespace caisson::store
