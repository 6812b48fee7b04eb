// ls, glob, grep.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "doors/daiv/fs.h"
#include "doors/daiv/python_text.h"

namespace caisson::daiv {

namespace json = boost::json;

namespace {

constexpr std::size_t kGrepMatchesMax = 200;
constexpr std::size_t kListingBytes = 16UL * 1024 * 1024;  // taken before it is known how many
constexpr std::string_view kNoFolder = "No such directory";
constexpr std::string_view kNoPath = "No such path";

bool is_folder(const control::FileView& view) { return view.entry.type == wire::EntryType::Folder; }

json::object list_answer(json::array entries, std::string_view name,
                         const std::optional<FsError>& error) {
  json::object out;
  out[name] = std::move(entries);
  out["error"] = to_json(error);
  return out;
}

// Why a folder could not be looked into; nothing: it is one, and may be.
awaitable<Result<std::optional<FsError>>> check_folder(Call& call, const std::string& path) {
  using Found = std::optional<FsError>;
  auto entry = co_await call.fleet().stat(call.caller, call.id(), path, true);
  if (!entry && is_session_trouble(entry.error())) co_return std::unexpected(entry.error());
  if (!entry) co_return Found(fs_error(entry.error(), path, kNoFolder));
  if (!is_folder(*entry)) co_return Found(FsError{kNotADirectory, "Not a directory: " + path});
  co_return Found();
}

json::array sorted_entries(std::vector<std::pair<std::string, bool>> found) {
  std::ranges::sort(found);
  json::array out;
  for (const auto& [path, folder] : found)
    out.push_back(json::object{{"path", lossy_utf8(path)}, {"is_dir", folder}});
  return out;
}

std::vector<std::string> pruned(const Call& call, const std::vector<std::string>& exclude) {
  std::vector<std::string> out = call.options().prune_dirs;
  out.insert(out.end(), exclude.begin(), exclude.end());
  return out;
}

std::optional<FsError> check_prune(const std::vector<std::string>& prune) {
  if (prune.size() <= control::kPruneNamesMax) return std::nullopt;
  return FsError{kInvalidPattern,
                 fmt::format("exclude: at most {} names in all", control::kPruneNamesMax)};
}

// Patterns that are none for a relative path in one spelling: they match nothing.
bool can_match(std::string_view pattern) {
  return !pattern.empty() && !pattern.starts_with('/') && !pattern.starts_with("./") &&
         !pattern.ends_with('/');
}

}  // namespace

awaitable<Result<void>> fs_ls(Call& call) {
  if (auto good = want_body(call); !good) co_return good;
  Problems problems;
  Fields fields(call.body.value, json::array{"body"}, problems);
  const std::string path = fields.text("path");
  if (!problems.empty()) co_return refuse(call, problems);
  std::optional<FsError> error = check_path(path, RootItself::Allowed);
  std::vector<std::pair<std::string, bool>> found;
  if (!error) {
    auto session = co_await enter(call, Wake::Yes);
    if (!session) co_return std::unexpected(session.error());
    if (auto room = co_await call.hold().resize(kListingBytes); !room) co_return room;
    auto listed = co_await call.fleet().list_files(call.caller, call.id(), path, false);
    if (!listed && is_session_trouble(listed.error())) co_return std::unexpected(listed.error());
    if (listed) {
      const std::string folder = without_slashes(path);
      for (const control::FileView& one : *listed)
        found.emplace_back(folder + "/" + one.entry.name, is_folder(one));
    } else {
      auto why = co_await check_folder(call, path);
      if (!why) co_return std::unexpected(why.error());
      error = *why ? *why : fs_error(listed.error(), path, kNoFolder);
    }
  }
  const json::object body = list_answer(sorted_entries(std::move(found)), "entries", error);
  co_return co_await answer(call, body);
}

awaitable<Result<void>> fs_glob(Call& call) {
  if (auto good = want_body(call); !good) co_return good;
  Problems problems;
  Fields fields(call.body.value, json::array{"body"}, problems);
  control::FindWish wish;
  wish.pattern = fields.text("pattern");
  wish.path = fields.text("path");
  wish.prune = pruned(call, fields.texts_or("exclude", {}));
  if (!problems.empty()) co_return refuse(call, problems);
  std::optional<FsError> error = check_path(wish.path, RootItself::Allowed);
  if (!error) error = check_prune(wish.prune);
  std::vector<std::pair<std::string, bool>> found;
  if (!error) {
    auto session = co_await enter(call, Wake::Yes);
    if (!session) co_return std::unexpected(session.error());
    if (auto room = co_await call.hold().resize(kListingBytes); !room) co_return room;
    auto why = co_await check_folder(call, wish.path);
    if (!why) co_return std::unexpected(why.error());
    error = *why;
  }
  if (!error && can_match(wish.pattern)) {
    const std::string path = wish.path;
    auto files = co_await call.fleet().find_files(call.caller, call.id(), std::move(wish));
    if (!files && is_session_trouble(files.error())) co_return std::unexpected(files.error());
    if (!files) {
      error = fs_error(files.error(), path, kNoFolder);
    } else {
      for (const control::FileView& one : *files) found.emplace_back(one.path, is_folder(one));
    }
  }
  const json::object body = list_answer(sorted_entries(std::move(found)), "matches", error);
  co_return co_await answer(call, body);
}

namespace {

struct GrepAnswer {
  json::array matches;
  bool truncated = false;
  std::optional<FsError> error;
};

void take_matches(GrepAnswer& out, const control::GrepView& view, const std::string& path) {
  if (view.unreadable > 0) {
    out.error = FsError{kExecFailed, fmt::format("grep failed (exit 2) for '{}'", path)};
    return;
  }
  out.truncated = view.truncated;
  for (const control::GrepMatch& one : view.matches) {
    if (out.matches.size() == kGrepMatchesMax) {
      out.truncated = true;
      return;
    }
    out.matches.push_back(json::object{
        {"path", lossy_utf8(one.path)}, {"line", one.line}, {"text", lossy_utf8(one.text)}});
  }
}

awaitable<Result<GrepAnswer>> grep(Call& call, control::GrepWish wish) {
  GrepAnswer out;
  const std::string path = wish.path;
  const std::string pattern = wish.pattern;
  auto session = co_await enter(call, Wake::Yes);
  if (!session) co_return std::unexpected(session.error());
  auto entry = co_await call.fleet().stat(call.caller, call.id(), path, false);
  if (!entry && is_session_trouble(entry.error())) co_return std::unexpected(entry.error());
  if (!entry) {
    out.error = fs_error(entry.error(), path, kNoPath);
    co_return out;
  }
  if (entry->entry.type == wire::EntryType::Link) co_return out;  // never followed, nor searched
  auto found = co_await call.fleet().grep_files(call.caller, call.id(), std::move(wish));
  if (!found && is_session_trouble(found.error())) co_return std::unexpected(found.error());
  if (found) {
    take_matches(out, *found, path);
  } else if (found.error().sys_errno == EINVAL) {
    out.error = FsError{kInvalidPattern, fmt::format("invalid regular expression: '{}'", pattern)};
  } else {
    out.error = fs_error(found.error(), path, kNoPath);
  }
  co_return out;
}

}  // namespace

awaitable<Result<void>> fs_grep(Call& call) {
  if (auto good = want_body(call); !good) co_return good;
  Problems problems;
  Fields fields(call.body.value, json::array{"body"}, problems);
  control::GrepWish wish;
  wish.pattern = fields.text("pattern");
  wish.path = fields.text("path");
  wish.glob = fields.text_or_null("glob").value_or("");
  wish.prune = pruned(call, fields.texts_or("exclude", {}));
  wish.matches_max = kGrepMatchesMax;
  if (!problems.empty()) co_return refuse(call, problems);
  GrepAnswer out;
  out.error = check_path(wish.path, RootItself::Allowed);
  if (!out.error) out.error = check_prune(wish.prune);
  if (!out.error && wish.pattern.find('\0') != std::string::npos)
    out.error = FsError{kInvalidPattern, "invalid regular expression: it holds a NUL"};
  if (!out.error) {
    auto found = co_await grep(call, std::move(wish));
    if (!found) co_return std::unexpected(found.error());
    out = *std::move(found);
  }
  json::object body;
  body["matches"] = std::move(out.matches);
  body["truncated"] = out.truncated;
  body["error"] = to_json(out.error);
  co_return co_await answer(call, body);
}

}  // namespace caisson::daiv
