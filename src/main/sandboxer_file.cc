#include "main/sandboxer_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>

#include "control/text.h"
#include "engine/native/own_process.h"
#include "main/import_sandboxer.h"

namespace caisson::server {
namespace {

using store::ColumnType;

constexpr unsigned kNobody = 65534;
constexpr std::size_t kContainerIdLength = 64;
constexpr std::size_t kHostLabelBytesMax = 63;
constexpr double kTimeMax = 4e9;  // some hundred years
constexpr store::ForeignLimits kLimits{.value_bytes_max = kImportValueBytesMax,
                                       .memory_bytes_max = 256 << 20,
                                       .time_max = seconds(300)};
constexpr std::array<std::string_view, 6> kTables = {
    "users",     "networks",           "static_auth_tokens",
    "sandboxes", "command_executions", "command_execution_logs"};

// What the old server has not yet moved from its log into the file would be missing.
Result<void> check_file(const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return sys_failure("open " + path, errno);
  if (!S_ISREG(facts.st_mode))
    return failure(Errc::InvalidArgument,
                   path + " is no regular file: name a database of sandboxer");
  for (const char* suffix : {"-wal", "-journal"}) {
    struct stat log{};
    if (::stat((path + suffix).c_str(), &log) != 0 || log.st_size == 0) continue;
    return failure(Errc::Busy,
                   fmt::format("{}{} is there: the old server runs, or was killed; stop "
                               "it, or open and close the database once",
                               path, suffix));
  }
  return {};
}

// Its name must not be able to be anything else than a name.
std::string quoted(std::string_view table) { return fmt::format("main.\"{}\"", table); }

}  // namespace

void OldRow::wrong(std::string_view name, std::string_view want) {
  if (!wrong_.empty()) return;
  wrong_ = fmt::format("table {}, row {}: column {} holds something else than {}", table_, number_,
                       name, want);
}

Result<void> OldRow::verdict() const {
  if (wrong_.empty()) return {};
  return failure(Errc::InvalidArgument, wrong_);
}

bool OldRow::is_null(int column) const { return select_.type(column) == ColumnType::Null; }

std::string OldRow::id(int column, std::string_view name) {
  std::string text = select_.text(column);
  const auto is_printable = [](char letter) { return letter > ' ' && letter < 0x7F; };
  if (select_.type(column) == ColumnType::Text && !text.empty() &&
      text.size() <= kImportIdBytesMax && std::ranges::all_of(text, is_printable))
    return text;
  wrong(name, "an id of printable characters");
  return {};
}

std::string OldRow::container_id(int column, std::string_view name) {
  std::string text = id(column, name);
  if (text.size() != kContainerIdLength ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    wrong(name, "64 small hex digits");
  return text;
}

std::string OldRow::host_label(int column, std::string_view name) {
  std::string text = id(column, name);
  if (text.size() > kHostLabelBytesMax ||
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos)
    wrong(name, "a name of a-z, 0-9 and '-'");
  return text;
}

std::string OldRow::maybe_id(int column, std::string_view name) {
  return is_null(column) ? std::string() : id(column, name);
}

std::string OldRow::content(int column, std::string_view name) {
  if (is_null(column)) return {};
  if (select_.type(column) != ColumnType::Text) {
    wrong(name, "text");
    return {};
  }
  return control::to_utf8(select_.text(column));
}

std::string OldRow::text(int column, std::string_view name, std::size_t bytes_max) {
  std::string out = control::cut_text(content(column, name), bytes_max);
  for (char& letter : out)
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F) letter = ' ';
  return out;
}

std::optional<std::int64_t> OldRow::whole(int column, std::string_view name) {
  if (is_null(column)) return std::nullopt;
  if (select_.type(column) != ColumnType::Integer) wrong(name, "a whole number");
  return select_.integer(column);
}

std::optional<std::int64_t> OldRow::exit_code(int column, std::string_view name) {
  const auto value = whole(column, name);
  if (value && *value != static_cast<std::int32_t>(*value)) wrong(name, "an exit code");
  return value;
}

std::optional<double> OldRow::time(int column, std::string_view name) {
  if (is_null(column)) return std::nullopt;
  const ColumnType type = select_.type(column);
  const double value = select_.real(column);
  if ((type != ColumnType::Integer && type != ColumnType::Real) || !std::isfinite(value) ||
      value < 0 || value > kTimeMax)
    wrong(name, "seconds since 1970");
  return value;
}

bool OldRow::flag(int column, std::string_view name) {
  const auto value = whole(column, name);
  if (value && *value != 0 && *value != 1) wrong(name, "0 or 1");
  return value.value_or(0) == 1;
}

Result<SandboxerFile> SandboxerFile::open(const std::string& path) {
  TRY(check_file(path));
  SandboxerFile file(TRY(store::Database::open_foreign(path, kLimits)));
  // The file is open; nothing of it is read yet.
  if (::geteuid() == 0) TRY(engine::native::become_unprivileged(kNobody, kNobody));
  TRY_IN(path, file.check_tables());
  return file;
}

Result<void> SandboxerFile::check_tables() {
  store::Statement select = TRY(
      database_.prepare("SELECT type FROM pragma_table_list WHERE schema = 'main' AND name = ?1"));
  for (const std::string_view table : kTables) {
    select.bind_text(1, table);
    const bool found = TRY(select.step());
    const std::string type = found ? select.text(0) : std::string("missing");
    select.reset();
    if (type == "table") continue;
    return failure(
        Errc::InvalidArgument,
        found ? fmt::format("'{}' is a {} there, and not a table: it is no database of "
                            "sandboxer",
                            table, type)
              : fmt::format("the table '{}' is missing: it is no database of sandboxer", table));
  }
  return {};
}

Result<void> SandboxerFile::walk(const std::string& sql, std::string_view table,
                                 std::size_t rows_max, const Read& read) {
  store::Statement select = TRY_IN(fmt::format("table {}", table), database_.prepare(sql));
  std::uint64_t number = 0;
  while (TRY_IN(fmt::format("table {}, row {}", table, number + 1), select.step())) {
    if (++number > rows_max) {
      return failure(Errc::TooLarge,
                     fmt::format("table {}: more than {} rows are too many", table, rows_max));
    }
    OldRow row(select, table, number);
    read(row);
    TRY(row.verdict());
  }
  return {};
}

Result<void> SandboxerFile::each(std::string_view table, std::string_view columns,
                                 std::size_t rows_max, const Read& read) {
  return walk(fmt::format("SELECT {} FROM {} ORDER BY rowid", columns, quoted(table)), table,
              rows_max, read);
}

Result<void> SandboxerFile::newest(std::string_view table, std::string_view columns,
                                   std::size_t rows_max, const Read& read) {
  return walk(fmt::format("SELECT {} FROM {} ORDER BY rowid DESC LIMIT {}", columns, quoted(table),
                          rows_max),
              table, rows_max, read);
}

Result<store::Statement> SandboxerFile::by_rowid(std::string_view table, std::string_view columns) {
  return database_.prepare(
      fmt::format("SELECT {} FROM {} WHERE rowid = ?1", columns, quoted(table)));
}

Result<void> SandboxerFile::one(store::Statement& select, std::string_view table,
                                std::int64_t rowid, const Read& read) {
  select.bind(1, rowid);
  const bool found = TRY_IN(fmt::format("table {}, row {}", table, rowid), select.step());
  Result<void> verdict;
  if (found) {
    OldRow row(select, table, static_cast<std::uint64_t>(rowid));
    read(row);
    verdict = row.verdict();
  }
  select.reset();
  return verdict;
}

Result<std::int64_t> SandboxerFile::count(std::string_view table) {
  return database_.integer(fmt::format("SELECT count(*) FROM {}", quoted(table)));
}

}  // namespace caisson::server
