// store/sqlite.h — a connection and its prepared statements, each with one owner. The C interface
// of SQLite stops here. A connection belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace caisson::store {

inline constexpr milliseconds kBusyTimeout{5000};  // another process may hold the lock for so long

// What a column of a row holds; a database of somebody else may hold anything anywhere.
enum class ColumnType : std::uint8_t { Integer, Real, Text, Blob, Null };

class Statement {
 public:
  Statement() noexcept = default;
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  // Parameters count from 1 and columns from 0, as in SQLite. What is bound must live until the
  // statement is reset: nothing is copied.
  Statement& bind(int index, std::int64_t value) noexcept;
  Statement& bind(int index, const std::optional<std::int64_t>& value) noexcept;
  Statement& bind_text(int index, std::string_view text) noexcept;
  Statement& bind_bytes(int index, std::string_view bytes) noexcept;

  // True when there is a row.
  [[nodiscard]] Result<bool> step();
  // For a statement that returns no rows: executes it and makes it ready for the next time.
  [[nodiscard]] Result<void> run();
  void reset() noexcept;

  [[nodiscard]] std::int64_t integer(int column) const noexcept;
  [[nodiscard]] std::optional<std::int64_t> maybe_integer(int column) const noexcept;
  [[nodiscard]] std::string text(int column) const;  // of a text or a blob
  [[nodiscard]] double real(int column) const noexcept;
  [[nodiscard]] ColumnType type(int column) const noexcept;

 private:
  friend class Database;
  explicit Statement(sqlite3_stmt* handle) noexcept : handle_(handle) {}
  void bound(int code) noexcept;

  sqlite3_stmt* handle_ = nullptr;
  int bind_error_ = 0;  // the first one; told by step()
};

enum class OpenMode : std::uint8_t { ReadWrite, ReadOnly };

// What reading somebody else's file may cost.
struct ForeignLimits {
  int value_bytes_max = 0;  // of one value or row
  std::int64_t memory_bytes_max = 0;
  seconds time_max{0};
};

class Database {
 public:
  [[nodiscard]] static Result<Database> open(const std::string& path, OpenMode mode);
  // A file that another program wrote and an enemy may have changed. Nothing is written, locked or
  // recovered; views and triggers of it do not run; what costs too much is an error. The bound on
  // memory is one for the whole program.
  [[nodiscard]] static Result<Database> open_foreign(const std::string& path,
                                                     const ForeignLimits& limits);
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database();

  // Constant text of this program only; values are bound.
  [[nodiscard]] Result<Statement> prepare(std::string_view sql);
  [[nodiscard]] Result<void> execute(const char* sql);
  [[nodiscard]] Result<std::int64_t> integer(std::string_view sql);

  // Pages in the write-ahead log are told to `*pages` at each commit; it outlives the connection.
  void watch_log(int* pages) noexcept;
  // Moves what it can from the log to the database, without waiting for readers.
  [[nodiscard]] Result<void> checkpoint();

  // SQLite itself ends a transaction after some failures (a full disk among them).
  [[nodiscard]] bool in_transaction() const noexcept;

 private:
  explicit Database(sqlite3* handle) noexcept : handle_(handle) {}
  std::unique_ptr<TimePoint> deadline_;  // the connection looks at it, and goes first
  sqlite3* handle_ = nullptr;
};

}  // namespace caisson::store
