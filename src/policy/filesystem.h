// policy/filesystem.h — may this path be read or written? What the declaration says, as text; see
// lexical_path.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/capability.h"

namespace caisson::policy {

enum class PathOp : std::uint8_t { Read, Write };

[[nodiscard]] std::string_view to_string(PathOp op) noexcept;
[[nodiscard]] Result<PathOp> parse_path_op(std::string_view text);

class FilesystemPolicy {
 public:
  // `workdir` is the sandbox's working folder. Without it, relative writable paths match nothing.
  explicit FilesystemPolicy(const FilesystemConfig& config, std::string_view workdir = {});

  [[nodiscard]] bool can_read(std::string_view path) const;
  [[nodiscard]] bool can_write(std::string_view path) const;

  // Why not, or nothing when it is allowed.
  [[nodiscard]] std::optional<std::string> deny_reason(std::string_view path, PathOp op) const;

 private:
  FilesystemMode mode_;
  bool writes_everywhere_;  // read_write without a list; a list whose paths match nothing is not
                            // that
  std::string workdir_;
  std::vector<std::string> writable_;  // absolute and clean
};

// Denied, with the reason as its message.
[[nodiscard]] Result<void> validate_path_access(std::string_view path, PathOp op,
                                                const FilesystemConfig& config);

}  // namespace caisson::policy
