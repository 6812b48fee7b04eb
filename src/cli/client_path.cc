#include "cli/client_path.h"

#include <fmt/format.h>

#include "policy/wording.h"

namespace caisson::cli {
namespace {

bool is_unreserved(char c) {
  return policy::is_letter(c) || policy::is_digit(c) || c == '-' || c == '.' || c == '_' ||
         c == '~';
}

void add_encoded(std::string& out, char c) {
  if (is_unreserved(c)) {
    out += c;
  } else {
    out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
}

}  // namespace

Result<Place> parse_place(std::string_view text) {
  if (text.empty()) return failure(Errc::InvalidArgument, "an empty path: write . for this folder");
  if (text.find('\0') != std::string_view::npos)
    return failure(Errc::InvalidArgument, "a NUL byte in a path");
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || text.find('/') < colon)
    return Place{std::nullopt, std::string(text)};
  if (colon == 0) {
    return failure(Errc::InvalidArgument,
                   fmt::format("{}: no sandbox stands before the colon; write ./{} for a file here",
                               policy::in_quotes(text), policy::printable(text)));
  }
  const std::string_view path = text.substr(colon + 1);
  return Place{std::string(text.substr(0, colon)), path.empty() ? "." : std::string(path)};
}

std::string base_name(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  if (path == "." || path == "..") return "";
  return std::string(path);
}

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty() || folder == ".") return std::string(name);
  if (folder.ends_with('/')) return fmt::format("{}{}", folder, name);
  return fmt::format("{}/{}", folder, name);
}

std::string encode(std::string_view text) {
  std::string out;
  for (const char c : text) add_encoded(out, c);
  return out;
}

std::string encode_path(std::string_view path) {
  std::string out;
  if (path.starts_with('/')) {
    out = "%2F";
    path.remove_prefix(1);
  }
  // Clean: no empty and no "." parts, which a server or a proxy may treat in their own ways.
  bool first = true;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
    if (part.empty() || part == ".") continue;
    if (!first) out += '/';
    first = false;
    for (const char c : part) add_encoded(out, c);
  }
  return out;
}

std::string sandbox_target(std::string_view id, std::string_view below) {
  return fmt::format("/api/v1/sandboxes/{}{}{}", encode(id), below.empty() ? "" : "/", below);
}

std::string file_target(std::string_view id, std::string_view verb, std::string_view path) {
  return sandbox_target(id, fmt::format("{}/{}", verb, encode_path(path)));
}

}  // namespace caisson::cli
