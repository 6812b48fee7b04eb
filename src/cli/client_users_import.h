// cli/client_users_import.h — the users of a sandboxer installation, brought to a server: people,
// their tokens as they are, and their old sandboxes with what was run in them. Everything that is
// there already stays as it is, so that a second import changes nothing.
//
// The database itself is read by `caissond read-sandboxer` (import_source.h); the server is asked
// through its public API. Here is only what to bring, and in which order: first all that could
// stand against it is looked for, then users, tokens, sandboxes, executions.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/client_session.h"

namespace caisson::cli {

inline constexpr std::size_t kImportBatchBytesMax = 1'000'000;  // of one request's items
inline constexpr std::size_t kImportBatchItemsMax = 500;
inline constexpr std::size_t kImportBatchLogsMax = 8192;

// Tells each line of the database, in its order; may be asked again.
using ImportTake = std::function<Result<void>(const boost::json::value&)>;
using ImportSource = std::function<Result<void>(const ImportTake&)>;

struct ImportPlan {
  std::vector<boost::json::value> users;      // that are new
  std::vector<boost::json::value> tokens;     // the same
  std::vector<boost::json::value> sandboxes;  // all, by tenant
  std::size_t users_known = 0;
  std::size_t tokens_known = 0;
  std::size_t executions = 0;
  std::vector<std::string> strangers;  // tenants that are somebody else here
  std::vector<std::string> unfit;      // what is said of tokens that cannot be taken over
  std::size_t ownerless = 0;           // sandboxes and tokens of nobody
  std::size_t left_out = 0;            // sandboxes, executions and logs beyond the limits
};

struct ImportCount {
  std::size_t users = 0;
  std::size_t tokens = 0;
  std::size_t sandboxes = 0;
  std::size_t executions = 0;

  [[nodiscard]] bool nothing() const noexcept {
    return users + tokens + sandboxes + executions == 0;
  }
};

[[nodiscard]] Result<ImportPlan> plan_import(const Session& session, const ImportSource& source);
[[nodiscard]] Result<ImportCount> carry_out(const Session& session, const ImportPlan& plan,
                                            const ImportSource& source);

// For people; without the text of any token.
[[nodiscard]] std::string describe(const ImportPlan& plan);
[[nodiscard]] std::string describe(const ImportCount& count);

}  // namespace caisson::cli
