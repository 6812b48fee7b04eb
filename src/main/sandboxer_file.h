// main/sandboxer_file.h — rows of sandboxer's database, each value checked: a type that its column
// does not have, or a text that is too long, is one sentence with the table, the row and the
// column.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/sqlite.h"

namespace caisson::server {

inline constexpr std::size_t kImportIdBytesMax = 256;
inline constexpr std::size_t kImportTextBytesMax = 1024;  // labels, descriptions: cut to it

// One row of a SELECT, read from left to right. The first thing that is wrong stays.
class OldRow {
 public:
  OldRow(const store::Statement& select, std::string_view table, std::uint64_t number)
      : select_(select), table_(table), number_(number) {}

  // Printable ASCII without blanks.
  std::string id(int column, std::string_view name);
  // 64 hex digits; and what fits into the first part of a host name.
  std::string container_id(int column, std::string_view name);
  std::string host_label(int column, std::string_view name);
  std::string maybe_id(int column, std::string_view name);  // empty for NULL
  // Valid UTF-8 without control characters, cut to `bytes_max`; empty for NULL.
  std::string text(int column, std::string_view name, std::size_t bytes_max);
  // Valid UTF-8, as long as it is.
  std::string content(int column, std::string_view name);
  std::optional<std::int64_t> whole(int column, std::string_view name);
  std::optional<std::int64_t> exit_code(int column, std::string_view name);
  // Seconds since 1970.
  std::optional<double> time(int column, std::string_view name);
  bool flag(int column, std::string_view name);

  [[nodiscard]] Result<void> verdict() const;

 private:
  void wrong(std::string_view name, std::string_view want);
  bool is_null(int column) const;

  const store::Statement& select_;
  std::string_view table_;
  std::uint64_t number_;
  std::string wrong_;
};

class SandboxerFile {
 public:
  // Every table is there, and is a table.
  [[nodiscard]] static Result<SandboxerFile> open(const std::string& path);

  // `rows_max`: more are an error that names the table. `read` takes what it wants of each row;
  // what it finds wrong with the row ends it.
  using Read = std::function<void(OldRow&)>;
  [[nodiscard]] Result<void> each(std::string_view table, std::string_view columns,
                                  std::size_t rows_max, const Read& read);
  // The newest `rows_max`, the newest first.
  [[nodiscard]] Result<void> newest(std::string_view table, std::string_view columns,
                                    std::size_t rows_max, const Read& read);
  // Of one row, by its number in the table; nothing happens when it is not there.
  [[nodiscard]] Result<void> one(store::Statement& select, std::string_view table,
                                 std::int64_t rowid, const Read& read);
  [[nodiscard]] Result<store::Statement> by_rowid(std::string_view table, std::string_view columns);
  [[nodiscard]] Result<std::int64_t> count(std::string_view table);

 private:
  explicit SandboxerFile(store::Database database) : database_(std::move(database)) {}
  [[nodiscard]] Result<void> check_tables();
  [[nodiscard]] Result<void> walk(const std::string& sql, std::string_view table,
                                  std::size_t rows_max, const Read& read);

  store::Database database_;
};

}  // namespace caisson::server
