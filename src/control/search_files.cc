#include "control/search_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <cerrno>

#include "control/fleet.h"
#include "control/guest_path.h"
#include "control/text.h"
#include "control/tool_arguments.h"
#include "control/tools.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

constexpr std::string_view kAnyFolder = "**/";
constexpr std::array<const char*, 6> kExcluded{".git",  ".hg",         ".svn",
                                               ".venv", "__pycache__", "node_modules"};

std::string below(const std::string& folder, const std::string& name) {
  if (name.empty()) return folder;
  return (folder == "/" ? "" : folder) + "/" + name;
}

// A name's pattern fits in every folder anyway.
Result<std::string> name_glob(std::string glob) {
  while (glob.starts_with(kAnyFolder)) glob.erase(0, kAnyFolder.size());
  if (glob.find('/') != std::string::npos)
    return bad_field("arguments.glob",
                     "arguments.glob: beside a pattern it is for a file's own name, such as *.py; "
                     "put the folder into path");
  return glob;
}

Result<std::string> path_glob(std::string glob) {
  while (glob.starts_with("./")) glob.erase(0, 2);
  if (glob.empty() || glob.starts_with('/') || glob.ends_with('/'))
    return bad_field("arguments.glob",
                     "arguments.glob: want a pattern for paths below the folder, such as "
                     "**/*.py; put the folder into path");
  return glob;
}

awaitable<Result<json::object>> find_lines(std::shared_ptr<engine::GuestChannel> guest,
                                           engine::GuestUser user, FileSearch search) {
  auto found = co_await guest->grep(user, search.path, *search.pattern, std::move(search.glob),
                                    std::move(search.exclude), search.results_max);
  if (!found && found.error().sys_errno == EINVAL)
    co_return bad_field("arguments.pattern",
                        "arguments.pattern: is no extended regular expression of POSIX: "
                        "alternatives are a|b, groups (…), classes [[:space:]]; there is no \\d");
  if (!found) co_return std::unexpected(found.error());
  json::array matches;
  for (const engine::MatchedLine& line : found->lines)
    matches.push_back(json::object{{"path", to_utf8(below(search.path, line.name))},
                                   {"line", line.line},
                                   {"text", cut_text(line.text, kSearchLineBytesMax)}});
  co_return json::object{{"path", to_utf8(search.path)},
                         {"matches", std::move(matches)},
                         {"truncated", found->truncated},
                         {"unreadable", found->unreadable}};
}

awaitable<Result<json::object>> find_paths(std::shared_ptr<engine::GuestChannel> guest,
                                           engine::GuestUser user, FileSearch search) {
  auto found =
      co_await guest->find(user, search.path, std::move(search.glob), std::move(search.exclude));
  if (!found) co_return std::unexpected(found.error());
  std::ranges::sort(found->entries, {}, &engine::FileEntry::name);
  const bool truncated = found->truncated || found->entries.size() > search.results_max;
  if (found->entries.size() > search.results_max) found->entries.resize(search.results_max);
  json::array files;
  for (const engine::FileEntry& entry : found->entries)
    files.push_back(json::object{{"path", to_utf8(below(search.path, entry.name))},
                                 {"type", to_string(entry.type)},
                                 {"size", entry.size}});
  co_return json::object{
      {"path", to_utf8(search.path)}, {"files", std::move(files)}, {"truncated", truncated}};
}

}  // namespace

Result<FileSearch> file_search_arguments(const json::object& arguments) {
  ToolArguments read(arguments);
  FileSearch out;
  out.path = TRY(read.text_or_none("path", kPathBytesMax)).value_or(std::string(kWorkspace));
  out.pattern = TRY(read.text_or_none("pattern", kSearchPatternBytesMax));
  const auto glob = TRY(read.text_or_none("glob", kSearchPatternBytesMax));
  const auto exclude = TRY(read.texts_or_none("exclude", kPruneNamesMax, 255));
  out.results_max = static_cast<std::size_t>(
      TRY(read.whole("max_results", kSearchResultsDefault, 1, kSearchResultsMax)));
  TRY(read.finish());
  if (!out.pattern && !glob)
    return bad_field("arguments.pattern",
                     "arguments.pattern: want a regular expression for lines, or glob for paths");
  if (out.pattern && (out.pattern->empty() || out.pattern->find('\0') != std::string::npos))
    return bad_field("arguments.pattern", "arguments.pattern: is empty or holds a NUL");
  out.exclude = exclude ? *exclude : std::vector<std::string>(kExcluded.begin(), kExcluded.end());
  out.path = TRY(guest_path(out.path, kWorkspace, "arguments.path"));
  if (!glob) return out;
  auto judged = out.pattern ? name_glob(*glob) : path_glob(*glob);
  out.glob = TRY(std::move(judged));
  return out;
}

awaitable<Result<json::object>> search_files(std::shared_ptr<engine::GuestChannel> guest,
                                             engine::GuestUser user, FileSearch search) {
  if (search.pattern) return find_lines(std::move(guest), user, std::move(search));
  return find_paths(std::move(guest), user, std::move(search));
}

}  // namespace caisson::control
