#include "policy/filesystem.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "policy/lexical_path.h"
#include "policy/wording.h"

namespace caisson::policy {

std::string_view to_string(PathOp op) noexcept { return op == PathOp::Read ? "read" : "write"; }

Result<PathOp> parse_path_op(std::string_view text) {
  if (text == "read") return PathOp::Read;
  if (text == "write") return PathOp::Write;
  return failure(Errc::InvalidArgument,
                 fmt::format("unknown operation {}; known: read, write", in_quotes(text)));
}

FilesystemPolicy::FilesystemPolicy(const FilesystemConfig& config, std::string_view workdir)
    : mode_(config.mode),
      writes_everywhere_(config.mode == FilesystemMode::ReadWrite && config.writable_paths.empty()),
      workdir_(workdir) {
  for (const std::string& path : config.writable_paths) {
    const Result<std::string> clean = clean_path(path);
    if (!clean) continue;  // a path that is not valid grants nothing
    Result<std::string> absolute = absolute_path(*clean, workdir_);
    if (absolute) writable_.push_back(std::move(*absolute));
  }
}

bool FilesystemPolicy::can_read(std::string_view path) const {
  return !deny_reason(path, PathOp::Read);
}

bool FilesystemPolicy::can_write(std::string_view path) const {
  return !deny_reason(path, PathOp::Write);
}

std::optional<std::string> FilesystemPolicy::deny_reason(std::string_view path, PathOp op) const {
  const Result<std::string> absolute = absolute_path(path, workdir_);
  if (!absolute) return fmt::format("{} denied: {}", to_string(op), absolute.error().message);
  const auto denied = [&](std::string_view why) {
    return fmt::format("{} of {} denied: {}", to_string(op), in_quotes(*absolute), why);
  };
  if (mode_ == FilesystemMode::None) return denied("filesystem mode is none");
  if (op == PathOp::Read) return std::nullopt;
  if (mode_ == FilesystemMode::ReadOnly) return denied("filesystem mode is read_only");
  const auto holds = [&](const std::string& folder) { return is_within(*absolute, folder); };
  if (writes_everywhere_ || std::ranges::any_of(writable_, holds)) return std::nullopt;
  return denied("not under any of writable_paths");
}

Result<void> validate_path_access(std::string_view path, PathOp op,
                                  const FilesystemConfig& config) {
  std::optional<std::string> reason = FilesystemPolicy(config).deny_reason(path, op);
  if (reason) return failure(Errc::Denied, std::move(*reason));
  return {};
}

}  // namespace caisson::policy
