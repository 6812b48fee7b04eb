#include "control/tree_changes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "control/text.h"

namespace caisson::control {
namespace {

bool is_called(std::string_view part, std::string_view name) {
  return std::ranges::equal(part, name, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

bool is_dot_git(std::string_view part) { return is_called(part, ".git"); }

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// What git would take: it refuses a link in the place of its list of modules.
bool is_content(const engine::FileEntry& entry) {
  if (entry.type == wire::EntryType::Link) return !is_called(file_name(entry.name), ".gitmodules");
  return entry.type == wire::EntryType::File;
}

// A line of content always has a sign in front of it, and a line of packed bytes has no space: only
// git's own words begin like this.
constexpr std::string_view kSection = "diff --git ";

std::vector<std::string_view> sections_of(std::string_view patch) {
  std::vector<std::string_view> out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < patch.size();) {
    const std::size_t end = std::min(patch.find('\n', at), patch.size() - 1) + 1;
    if (at != begin && patch.substr(at).starts_with(kSection)) {
      out.push_back(patch.substr(begin, at - begin));
      begin = at;
    }
    at = end;
  }
  if (begin < patch.size()) out.push_back(patch.substr(begin));
  return out;
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

}  // namespace

Stamp stamp_of(const engine::FileEntry& entry) {
  return {entry.inode, entry.size, entry.ctime_ns, entry.mode, entry.type};
}

bool is_git_path(std::string_view path) {
  while (true) {
    const std::size_t slash = path.find('/');
    if (is_dot_git(path.substr(0, slash))) return true;
    if (slash == std::string_view::npos) return false;
    path.remove_prefix(slash + 1);
  }
}

TreeChanges find_changes(const ShippedFiles& shipped, const Stamps& stamps,
                         const std::vector<engine::FileEntry>& now) {
  TreeChanges out;
  std::set<std::string_view> same;
  for (const engine::FileEntry& entry : now) {
    if (!is_content(entry) || is_git_path(entry.name)) continue;
    if (entry.type == wire::EntryType::File && file_name(entry.name) == ".gitignore")
      out.ignores.push_back(entry.name);
    const auto before = stamps.find(entry.name);
    const bool unchanged = before != stamps.end() && before->second == stamp_of(entry);
    const bool ours = shipped.contains(entry.name);
    if (unchanged && ours) same.insert(entry.name);
    if (unchanged) continue;
    (ours ? out.kept : out.fresh).push_back(entry.name);
    if (!ours) out.fresh_sizes.push_back(entry.size);
    if (ours) out.bytes += entry.size;
  }
  for (const auto& [name, where] : shipped) {
    if (same.contains(name) || is_git_path(name)) continue;
    out.old_files.push_back(name);
    out.bytes += where.size;
  }
  return out;
}

void TreeChanges::drop(const std::set<std::string_view>& names) {
  std::size_t kept_so_far = 0;
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    if (names.contains(fresh[i])) continue;
    fresh_sizes[kept_so_far] = fresh_sizes[i];
    if (kept_so_far != i) fresh[kept_so_far] = std::move(fresh[i]);
    ++kept_so_far;
  }
  fresh.resize(kept_so_far);
  fresh_sizes.resize(kept_so_far);
}

std::uint64_t TreeChanges::all_bytes() const {
  return std::accumulate(fresh_sizes.begin(), fresh_sizes.end(), bytes);
}

std::string as_utf8_patch(std::string_view text, std::string_view binary) {
  // A file that became a link has two parts with one first line.
  std::map<std::string_view, std::vector<std::string_view>> packed;
  for (const std::string_view section : sections_of(binary))
    packed[first_line(section)].push_back(section);
  std::map<std::string_view, std::size_t> seen;
  std::string out;
  for (const std::string_view section : sections_of(text)) {
    const std::size_t number = seen[first_line(section)]++;
    if (is_utf8(section)) {
      out += section;
      continue;
    }
    const auto other = packed.find(first_line(section));
    // Git paired the files in another way this time: then all of it is packed.
    if (other == packed.end() || number >= other->second.size()) return std::string(binary);
    out += other->second[number];
  }
  return out;
}

}  // namespace caisson::control
