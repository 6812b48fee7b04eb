// Database::open_foreign(): SQLite's own advice for files that nobody vouches for.
#include <fmt/format.h>
#include <sqlite3.h>

#include <array>
#include <filesystem>
#include <utility>

#include "store/sqlite.h"

namespace caisson::store {
namespace {

constexpr int kStepsBetweenLooks = 10'000;  // of the virtual machine

// A path may hold every character that means something in an address.
std::string address_of(const std::string& path) {
  std::string out = "file://";
  for (const char letter : std::filesystem::absolute(path).string()) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') || letter == '/' || letter == '.' ||
                       letter == '-' || letter == '_';
    if (plain) {
      out.push_back(letter);
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(letter)));
    }
  }
  return out + "?mode=ro&immutable=1";
}

void harden(sqlite3* handle, const ForeignLimits& limits) {
  constexpr std::array kSwitches = {
      std::pair{SQLITE_DBCONFIG_DEFENSIVE, 1}, std::pair{SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
      std::pair{SQLITE_DBCONFIG_ENABLE_VIEW, 0}, std::pair{SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}};
  for (const auto& [option, value] : kSwitches) sqlite3_db_config(handle, option, value, nullptr);
  const std::array bounds = {std::pair{SQLITE_LIMIT_LENGTH, limits.value_bytes_max},
                             std::pair{SQLITE_LIMIT_SQL_LENGTH, 100'000},
                             std::pair{SQLITE_LIMIT_COLUMN, 100},
                             std::pair{SQLITE_LIMIT_EXPR_DEPTH, 20},
                             std::pair{SQLITE_LIMIT_COMPOUND_SELECT, 3},
                             std::pair{SQLITE_LIMIT_VDBE_OP, 25'000},
                             std::pair{SQLITE_LIMIT_FUNCTION_ARG, 8},
                             std::pair{SQLITE_LIMIT_ATTACHED, 0},
                             std::pair{SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50},
                             std::pair{SQLITE_LIMIT_VARIABLE_NUMBER, 10},
                             std::pair{SQLITE_LIMIT_TRIGGER_DEPTH, 1},
                             std::pair{SQLITE_LIMIT_WORKER_THREADS, 0}};
  for (const auto& [which, most] : bounds) sqlite3_limit(handle, which, most);
}

}  // namespace

Result<Database> Database::open_foreign(const std::string& path, const ForeignLimits& limits) {
  sqlite3_hard_heap_limit64(limits.memory_bytes_max);
  sqlite3* handle = nullptr;
  constexpr int kFlags =
      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(address_of(path).c_str(), &handle, kFlags, nullptr);
  Database database(handle);
  if (code != SQLITE_OK)
    return failure(Errc::NotFound, fmt::format("open {}: {}", path, sqlite3_errstr(code)));
  harden(handle, limits);
  database.deadline_ = std::make_unique<TimePoint>(Clock::now() + limits.time_max);
  const auto look = [](void* deadline) {
    return Clock::now() < *static_cast<TimePoint*>(deadline) ? 0 : 1;
  };
  sqlite3_progress_handler(handle, kStepsBetweenLooks, look, database.deadline_.get());
  return database;
}

}  // namespace caisson::store
