// store/export.h — the audit as text for other programs: JSON lines, or CSV.
//
// JSON lines hold every column; a `detail` that is a JSON object on one line is put in as it is.
// Bytes that are not UTF-8 become U+FFFD. In CSV each cell is quoted, and one that a spreadsheet
// would take for a formula gets an apostrophe in front: what a guest named a file must not run.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "store/store.h"

namespace caisson::store {

enum class ExportFormat : std::uint8_t { JsonLines, Csv };

[[nodiscard]] std::string json_line(const AuditRow& row);  // with its newline
[[nodiscard]] std::string csv_line(const AuditRow& row);
[[nodiscard]] std::string_view csv_header() noexcept;

// Store::audit or Reader::audit, and where the text goes. An error of either ends the export.
using RowSource = std::function<Result<std::vector<AuditRow>>(const AuditQuery&)>;
using TextSink = std::function<Result<void>(std::string_view)>;
[[nodiscard]] TextSink file_sink(std::FILE* file);

// All rows that `query` names, oldest first, page by page whatever its limit. Says how many.
[[nodiscard]] Result<std::int64_t> export_audit(const RowSource& source, AuditQuery query,
                                                ExportFormat format, const TextSink& sink);

}  // namespace caisson::store
