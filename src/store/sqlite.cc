#include "store/sqlite.h"

#include <sqlite3.h>

#include <array>
#include <cerrno>
#include <utility>

namespace caisson::store {
namespace {

Errc code_of(int code, int sys_errno) noexcept {
  if (sys_errno == ENOSPC || sys_errno == EDQUOT || sys_errno == EFBIG) return Errc::StoreFull;
  switch (code & 0xFF) {
    case SQLITE_FULL:
      return Errc::StoreFull;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Errc::Busy;
    case SQLITE_NOTFOUND:
    case SQLITE_CANTOPEN:
      return Errc::NotFound;
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
      return Errc::Denied;
    default:
      return Errc::Internal;
  }
}

std::unexpected<Error> sqlite_failure(std::string_view what, sqlite3* handle, int code) {
  const int extended = handle != nullptr ? sqlite3_extended_errcode(handle) : code;
  const int sys_errno = handle != nullptr ? sqlite3_system_errno(handle) : 0;
  // The system's number is of the last failed call and can be stale: only an I/O error is its own.
  const bool is_io = (extended & 0xFF) == SQLITE_IOERR || (extended & 0xFF) == SQLITE_CANTOPEN;
  std::string message(what);
  message += ": ";
  message += handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  if (is_io && sys_errno != 0) message += " (" + errno_text(sys_errno) + ")";
  return std::unexpected(
      Error{code_of(extended, is_io ? sys_errno : 0), std::move(message), is_io ? sys_errno : 0});
}

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), bind_error_(other.bind_error_) {}

Statement& Statement::operator=(Statement&& other) noexcept {
  Statement taken(std::move(other));
  std::swap(handle_, taken.handle_);
  std::swap(bind_error_, taken.bind_error_);
  return *this;
}

Statement::~Statement() { sqlite3_finalize(handle_); }

void Statement::bound(int code) noexcept {
  if (code != SQLITE_OK && bind_error_ == 0) bind_error_ = code;
}

Statement& Statement::bind(int index, std::int64_t value) noexcept {
  bound(sqlite3_bind_int64(handle_, index, value));
  return *this;
}

Statement& Statement::bind(int index, const std::optional<std::int64_t>& value) noexcept {
  bound(value ? sqlite3_bind_int64(handle_, index, *value) : sqlite3_bind_null(handle_, index));
  return *this;
}

Statement& Statement::bind_text(int index, std::string_view text) noexcept {
  // A null pointer would bind NULL: an empty text is a text.
  const char* data = text.data() != nullptr ? text.data() : "";
  bound(sqlite3_bind_text64(handle_, index, data, text.size(), SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind_bytes(int index, std::string_view bytes) noexcept {
  bound(sqlite3_bind_blob64(handle_, index, bytes.data(), bytes.size(), SQLITE_STATIC));
  return *this;
}

Result<bool> Statement::step() {
  if (bind_error_ != 0) return sqlite_failure("bind", sqlite3_db_handle(handle_), bind_error_);
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return sqlite_failure("database", sqlite3_db_handle(handle_), code);
}

Result<void> Statement::run() {
  auto stepped = step();
  reset();
  if (!stepped) return std::unexpected(std::move(stepped).error());
  CAISSON_ASSERT(!*stepped);
  return {};
}

void Statement::reset() noexcept {
  sqlite3_reset(handle_);
  bind_error_ = 0;
}

std::int64_t Statement::integer(int column) const noexcept {
  return sqlite3_column_int64(handle_, column);
}

std::optional<std::int64_t> Statement::maybe_integer(int column) const noexcept {
  if (sqlite3_column_type(handle_, column) == SQLITE_NULL) return std::nullopt;
  return sqlite3_column_int64(handle_, column);
}

std::string Statement::text(int column) const {
  const void* data = sqlite3_column_blob(handle_, column);
  const int size = sqlite3_column_bytes(handle_, column);
  if (data == nullptr || size <= 0) return {};
  return {static_cast<const char*>(data), static_cast<std::size_t>(size)};
}

double Statement::real(int column) const noexcept { return sqlite3_column_double(handle_, column); }

ColumnType Statement::type(int column) const noexcept {
  switch (sqlite3_column_type(handle_, column)) {
    case SQLITE_INTEGER:
      return ColumnType::Integer;
    case SQLITE_FLOAT:
      return ColumnType::Real;
    case SQLITE_TEXT:
      return ColumnType::Text;
    case SQLITE_NULL:
      return ColumnType::Null;
    default:
      return ColumnType::Blob;
  }
}

Result<Database> Database::open(const std::string& path, OpenMode mode) {
  const int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                    (mode == OpenMode::ReadWrite ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  Database database(handle);  // SQLite gives a handle even when it fails, to be closed
  if (code != SQLITE_OK) return sqlite_failure("open " + path, handle, code);
  sqlite3_busy_timeout(handle, static_cast<int>(kBusyTimeout.count()));
  // A changed file must not be able to run anything: no functions from its schema, no writes to it.
  constexpr std::array kSwitches = {std::pair{SQLITE_DBCONFIG_DEFENSIVE, 1},
                                    std::pair{SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0}};
  for (const auto& [option, value] : kSwitches) sqlite3_db_config(handle, option, value, nullptr);
  TRY(database.execute("PRAGMA cell_size_check = ON"));
  return database;
}

Database::Database(Database&& other) noexcept
    : deadline_(std::move(other.deadline_)), handle_(std::exchange(other.handle_, nullptr)) {}

Database& Database::operator=(Database&& other) noexcept {
  Database taken(std::move(other));
  std::swap(handle_, taken.handle_);
  std::swap(deadline_, taken.deadline_);
  return *this;
}

Database::~Database() { sqlite3_close_v2(handle_); }

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return sqlite_failure("database", handle_, code);
  return Statement(statement);
}

Result<void> Database::execute(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return sqlite_failure("database", handle_, code);
  return {};
}

Result<std::int64_t> Database::integer(std::string_view sql) {
  Statement statement = TRY(prepare(sql));
  const bool has_row = TRY(statement.step());
  return has_row ? statement.integer(0) : 0;
}

void Database::watch_log(int* pages) noexcept {
  const auto tell = [](void* where, sqlite3*, const char*, int count) {
    *static_cast<int*>(where) = count;
    return SQLITE_OK;
  };
  sqlite3_wal_hook(handle_, tell, pages);
}

Result<void> Database::checkpoint() {
  const int code =
      sqlite3_wal_checkpoint_v2(handle_, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  if (code != SQLITE_OK) return sqlite_failure("checkpoint", handle_, code);
  return {};
}

bool Database::in_transaction() const noexcept { return sqlite3_get_autocommit(handle_) == 0; }

}  // namespace caisson::store
