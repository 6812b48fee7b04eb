#include "doors/daiv/fs.h"

#include <cerrno>

#include "doors/daiv/python_text.h"

namespace caisson::daiv {

namespace json = boost::json;

namespace {

// Without double slashes, "." and a slash at the end.
std::string normal(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (part.empty() || part == ".") continue;
    out += '/';
    out += part;
  }
  return out.empty() ? "/" : out;
}

bool has_parent_part(std::string_view path) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    if (path.substr(0, end) == "..") return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

}  // namespace

json::value to_json(const std::optional<FsError>& error) {
  if (!error) return nullptr;
  return json::object{{"code", error->code}, {"message", lossy_utf8(error->message)}};
}

std::optional<FsError> check_path(std::string_view path, RootItself root) {
  const std::string shown = python_repr(path);
  const auto refuse_path = [](std::string message) {
    return FsError{kInvalidPath, std::move(message)};
  };
  constexpr std::string_view kBad("\0\r\n", 3);
  if (path.find_first_of(kBad) != path.npos)
    return refuse_path("path must not contain NUL or newline characters: " + shown);
  if (!path.starts_with('/')) return refuse_path("path must be absolute, got: " + shown);
  if (has_parent_part(path)) return refuse_path("path must not contain '..' segments: " + shown);
  // Two slashes, and not three, are a root of their own to POSIX.
  const bool other_root = path.starts_with("//") && !path.starts_with("///");
  const std::string plain = normal(path);
  if (plain == kRoot && !other_root) {
    if (root == RootItself::Allowed) return std::nullopt;
    return refuse_path("path must not equal a reserved root: " + shown);
  }
  if (other_root || !plain.starts_with(std::string(kRoot) + "/"))
    return refuse_path("path must be under one of ('/workspace',), got: " + shown);
  return std::nullopt;
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

FsError fs_error(const Error& error, const std::string& path, std::string_view missing) {
  switch (error.code) {
    case Errc::NotFound:
      return {kNotFound, std::string(missing) + ": " + path};
    case Errc::Denied:
      return {kPermissionDenied, "Permission denied: " + path};
    case Errc::InvalidArgument:
      if (error.field == "path") return {kInvalidPath, error.message};
      break;
    case Errc::TooLarge:
      return {kTooLarge, error.message};
    default:
      break;
  }
  // A link that leads to itself is nothing that is there.
  if (error.sys_errno == ELOOP) return {kNotFound, std::string(missing) + ": " + path};
  return {kExecFailed, error.message.empty() ? "the operation failed" : error.message};
}

bool is_session_trouble(const Error& error) {
  return error.code == Errc::Gone || error.code == Errc::LauncherGone ||
         error.code == Errc::StoreFull;
}

Result<void> want_body(Call& call) {
  if (!call.body.missing) return {};
  Problems problems;
  problems.missing(json::array{"body"}, nullptr);
  return refuse(call, problems);
}

}  // namespace caisson::daiv
