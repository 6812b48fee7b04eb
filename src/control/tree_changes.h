// control/tree_changes.h — what has become of an archive's files, told by their stamps. Pure.
//
// A stamp is what a guest cannot forge: inode, size and the kernel's own time of the last change.
// A file whose stamp is still the one that it had when the archive was put there is the archive's;
// every other may differ, and then git looks.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/link/guest_session.h"

namespace caisson::control {

struct Stamp {
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t ctime_ns = 0;
  std::uint32_t mode = 0;
  wire::EntryType type{};

  friend bool operator==(const Stamp&, const Stamp&) = default;
};
[[nodiscard]] Stamp stamp_of(const engine::FileEntry& entry);

// A file or link of the archive, and where its content or target lies in the plain one that the
// sanitiser wrote.
struct Shipped {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t mode = 0;  // with the type's bits
};

using ShippedFiles = std::map<std::string, Shipped, std::less<>>;
using Stamps = std::map<std::string, Stamp, std::less<>>;

struct TreeChanges {
  std::vector<std::string> old_files;  // of the archive, that are gone or may differ
  std::vector<std::string> kept;       // of these, what is still there
  std::vector<std::string> fresh;      // that the archive did not have
  std::vector<std::uint64_t> fresh_sizes;
  std::vector<std::string> ignores;  // files called .gitignore
  std::uint64_t bytes = 0;           // of the first two

  // Of the fresh ones, these are nobody's change.
  void drop(const std::set<std::string_view>& names);
  [[nodiscard]] std::uint64_t all_bytes() const;
};

// `stamps` are those of everything when the archive was there, what lay beside it included.
[[nodiscard]] TreeChanges find_changes(const ShippedFiles& shipped, const Stamps& stamps,
                                       const std::vector<engine::FileEntry>& now);

// Git has files of its own below such a name and takes no others.
[[nodiscard]] bool is_git_path(std::string_view path);

// `text` where it is UTF-8; where a file's part of it is not, that file's part of `binary`. Both
// are git's, of the same two trees.
[[nodiscard]] std::string as_utf8_patch(std::string_view text, std::string_view binary);

}  // namespace caisson::control
