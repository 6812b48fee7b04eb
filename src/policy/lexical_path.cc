#include "policy/lexical_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "policy/wording.h"

namespace caisson::policy {

namespace {

std::unexpected<Error> refuse(std::string_view text, std::string_view why) {
  return failure(Errc::InvalidArgument, fmt::format("path {}: {}", in_quotes(text), why));
}

// The components that carry meaning: neither empty nor ".".
std::vector<std::string_view> components_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    if (!part.empty() && part != ".") out.push_back(part);
    begin = end + 1;
  }
  return out;
}

}  // namespace

Result<std::string> clean_path(std::string_view text) {
  if (text.empty()) return refuse(text, "empty");
  if (text.size() > kPathBytesMax) return refuse(text, "longer than 4095 bytes");
  if (std::ranges::any_of(text, is_control)) return refuse(text, "a NUL or control character");
  if (!is_utf8(text)) return refuse(text, "not valid UTF-8");
  const bool absolute = text.front() == '/';
  std::string out;
  for (const std::string_view part : components_of(text)) {
    if (part == "..") return refuse(text, "\"..\" is not allowed");
    if (absolute || !out.empty()) out += '/';
    out += part;
  }
  if (out.empty()) return std::string(absolute ? "/" : ".");
  // A shell would have expanded it; nobody does here.
  if (out.front() == '~') return refuse(text, "\"~\" is not expanded; write the whole path");
  return out;
}

Result<std::string> absolute_path(std::string_view text, std::string_view workdir) {
  if (text.empty()) return refuse(text, "empty");
  if (text.size() > kPathBytesMax) return refuse(text, "longer than 4095 bytes");
  if (text.find('\0') != std::string_view::npos) return refuse(text, "a NUL byte");
  std::string whole(text);
  if (text.front() != '/') {
    if (!workdir.starts_with('/')) return refuse(text, "not absolute");
    whole = fmt::format("{}/{}", workdir, text);
  }
  std::vector<std::string_view> kept;
  for (const std::string_view part : components_of(whole)) {
    if (part != "..") {
      kept.push_back(part);
    } else if (!kept.empty()) {
      kept.pop_back();  // ".." of "/" is "/"
    }
  }
  std::string out;
  for (const std::string_view part : kept) {
    out += '/';
    out += part;
  }
  return out.empty() ? std::string("/") : out;
}

bool is_within(std::string_view path, std::string_view folder) noexcept {
  if (folder == "/") return path.starts_with('/');
  if (!path.starts_with(folder)) return false;
  return path.size() == folder.size() || path[folder.size()] == '/';
}

}  // namespace caisson::policy
