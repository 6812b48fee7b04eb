// store/schema.h — the tables, their version, and how a connection is set up.
#pragma once

#include "store/sqlite.h"

namespace caisson::store {

inline constexpr std::int64_t kSchemaVersion = 3;

// For the one writer: makes what is missing, refuses a database that a newer version wrote.
[[nodiscard]] Result<void> prepare_schema(Database& database);

// For readers: only looks.
[[nodiscard]] Result<void> check_schema(Database& database);

}  // namespace caisson::store
