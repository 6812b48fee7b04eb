// cli/client_audit.h — rows of the audit, page by page, as a table or as JSON lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/client_session.h"

namespace caisson::cli {

inline constexpr std::uint64_t kAuditPage = 1000;
inline constexpr std::uint64_t kSequenceMax = 9007199254740991;  // what JSON's numbers hold exactly

struct AuditRequest {
  std::string filter;                 // "&sandbox=…&action=…", encoded
  std::optional<std::uint64_t> last;  // only that many of the newest; all otherwise
  bool follow = false;
  bool json = false;  // one row, one line
};

[[nodiscard]] Result<void> show_audit(const Session& session, const AuditRequest& request);

}  // namespace caisson::cli
