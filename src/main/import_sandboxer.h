// main/import_sandboxer.h — `caissond read-sandboxer FILE`: what an installation of sandboxer had,
// from its database, as lines of JSON on standard output.
//
// The file is hostile: its users ran the old server, and that let them write anything on its host.
// So it is read by a process that has no privilege, through the narrow way of
// Database::open_foreign(), and each value is checked for its type and size. The first thing that
// is wrong ends it with one sentence on standard error.
//
// One object per line, in this order; "kind" says what it is:
//   user       tenant, id, email, name, login, avatar_url, created_at
//   network    name, tenant
//   token      tenant, token, token_id, description; token_id is empty when it cannot be taken over
//   sandbox    tenant, id, name, label, image, parent_id, last_active_at, deleted_at,
//              delete_reason, is_public
//   execution  tenant, id, sandbox_id, command, exit_code, executed_at, logs: [{fd, content,
//              created_at}]
//   end        sandboxes_left_out, executions_left_out, logs_left_out: the oldest, beyond the
//              limits
// Sandboxes and executions come grouped by tenant; an empty tenant means that nobody owns it.
#pragma once

#include <string>

#include "base/result.h"

namespace caisson::server {

inline constexpr std::size_t kImportUsersMax = 10'000;
inline constexpr std::size_t kImportNetworksMax = 20'000;
inline constexpr std::size_t kImportTokensMax = 10'000;
inline constexpr std::size_t kImportSandboxesMax = 100'000;
inline constexpr std::size_t kImportSandboxesOfTenantMax = 5'000;    // the newest are told
inline constexpr std::size_t kImportExecutionsMax = 500'000;         // the newest are read
inline constexpr std::size_t kImportExecutionsOfSandboxMax = 1000;   // the same, of one
inline constexpr std::size_t kImportLogRowsMax = 2'000'000;          // the same
inline constexpr std::size_t kImportLogJsonBytesMax = 512UL * 1024;  // of one execution, as JSON
inline constexpr std::size_t kImportPiecesMax = 4096;                // of one execution
inline constexpr std::size_t kImportPieceBytesMax = 64UL * 1024;     // longer ones are divided
inline constexpr int kImportValueBytesMax = 64 << 20;                // of one value in the file

// The old user's id when it is written as a tenant may be; else lower case, '-' for every other
// character, cut, and behind it '-' and 8 characters of its hash, so that no two become one.
[[nodiscard]] std::string tenant_of_user(const std::string& id);

// The exit status.
[[nodiscard]] int read_sandboxer(const std::string& path);

}  // namespace caisson::server
