// guest/layer/tree.h — names, folders and attributes of a hostile tree, by descriptor. Nothing here
// follows a link unless its name says so.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::layer {

inline constexpr std::size_t kAttributesMax = 128;  // of one file
inline constexpr std::size_t kAttributeBytesMax = 64UL * 1024;
inline constexpr char kOpaqueName[] = "user.overlay.opaque";

// The parts of a name in an archive: "./a//b/" is {"a", "b"} and "/" is {}. Refused: "..", NUL, and
// what is longer or deeper than a tree may be.
[[nodiscard]] Result<std::vector<std::string>> split_path(std::string_view path);

// The folder `path` below `root`. Links on the way are followed inside the root only, or not at
// all.
enum class Links { InRoot, Refused };
[[nodiscard]] Result<UniqueFd> open_path(int root, const std::string& path, Links links);

// A folder in a folder. Nothing where there is none of that name, or no folder.
[[nodiscard]] Result<std::optional<UniqueFd>> find_folder(int parent, const std::string& name);
[[nodiscard]] Result<UniqueFd> open_folder(int parent, const std::string& name);
// A regular file, for reading; a failure where it is anything else by now.
[[nodiscard]] Result<UniqueFd> open_file(int parent, const std::string& name);

// The entry itself, a link too. Nothing where there is none, or where `parent` is -1.
[[nodiscard]] Result<std::optional<struct stat>> find_entry(int parent, const std::string& name);
[[nodiscard]] Result<std::string> read_link(int parent, const std::string& name);

// The names in a folder, sorted by their bytes.
[[nodiscard]] Result<std::vector<std::string>> list_folder(int folder, std::uint64_t names_max);

// Whatever it is, with all that is in it.
[[nodiscard]] Result<void> remove_entry(int parent, const std::string& name);
[[nodiscard]] Result<void> remove_content(int folder);

[[nodiscard]] bool is_whiteout(const struct stat& facts) noexcept;
[[nodiscard]] Result<void> make_whiteout(int parent, const std::string& name);
[[nodiscard]] Result<void> mark_opaque(int folder);

struct Attribute {
  std::string name;
  std::string value;
};

// What a layer may say about a file: user.* without what overlay keeps there for itself.
[[nodiscard]] bool is_kept_attribute(std::string_view name) noexcept;

struct Attributes {
  std::vector<Attribute> kept;
  bool opaque = false;
};
// Refuses marks of overlay that no layer of ours can have: they would name files elsewhere.
[[nodiscard]] Result<Attributes> read_attributes(int fd);
[[nodiscard]] Result<void> write_attributes(int fd, std::span<const Attribute> attributes);

// Owner and mode, in the order that keeps the mode's upper bits.
[[nodiscard]] Result<void> set_owner(int fd, std::uint32_t uid, std::uint32_t gid,
                                     std::uint32_t mode);
[[nodiscard]] Result<void> set_times(int fd, const struct timespec& modified);
// The same for an entry that cannot be opened: a link, a fifo.
[[nodiscard]] Result<void> set_entry_owner(int parent, const std::string& name, std::uint32_t uid,
                                           std::uint32_t gid);
[[nodiscard]] Result<void> set_entry_times(int parent, const std::string& name,
                                           const struct timespec& modified);

[[nodiscard]] Result<void> write_all(int fd, std::span<const std::byte> bytes);

}  // namespace caisson::layer
