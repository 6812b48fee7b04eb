// store/rows.h — from columns to records.
#pragma once

#include "store/sqlite.h"
#include "store/store.h"

namespace caisson::store {

// Each reads the columns of one SELECT in reader.cc or verify.cc, in its order.
[[nodiscard]] AuditRow row_of(const Statement& select);
[[nodiscard]] TokenRecord token_of(const Statement& select);
[[nodiscard]] SandboxRecord sandbox_of(const Statement& select);
[[nodiscard]] FileRecord file_of(FileKind kind, const Statement& select);
[[nodiscard]] RunRecord run_of(const Statement& select);
[[nodiscard]] RunPiece piece_of(const Statement& select);
[[nodiscard]] std::string_view table_of(FileKind kind) noexcept;

}  // namespace caisson::store
