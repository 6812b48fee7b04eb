// cli/client_users_source.h — a sandboxer database, read by another process: `caissond
// read-sandboxer`, because this program carries no SQLite and nobody should parse a stranger's file
// with an administrator's token in memory. Its lines are read with a limit each.
#pragma once

#include <string>

#include "cli/client_users_import.h"

namespace caisson::cli {

inline constexpr std::size_t kSourceLineBytesMax = 2UL * 1024 * 1024;
inline constexpr std::size_t kSourceComplaintBytesMax = 4096;

// Lines to values; a line that is no JSON object, or too long, ends it.
class LineReader {
 public:
  explicit LineReader(const ImportTake& take) : take_(take) {}
  [[nodiscard]] Result<void> feed(std::string_view bytes);
  [[nodiscard]] Result<void> finish() const;

 private:
  const ImportTake& take_;
  std::string rest_;
};

// Starts the reader each time it is asked.
[[nodiscard]] ImportSource sandboxer_file(std::string path);

}  // namespace caisson::cli
