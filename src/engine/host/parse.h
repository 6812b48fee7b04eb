// engine/host/parse.h — the text of /proc and /etc, as values. Pure, and bounded against odd or
// hostile files: a line that does not parse is skipped, never guessed at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/host/features.h"

namespace caisson::engine {

inline constexpr std::size_t kCgroupMountsMax = 64;
inline constexpr std::size_t kControllersMax = 64;
inline constexpr std::size_t kIdLinesMax = 10'000;
inline constexpr int kCpusMax = 65'536;

// "6.18.44-generic" → {6, 18}.
[[nodiscard]] std::optional<KernelVersion> parse_release(std::string_view release);

struct CgroupMount {
  enum class Kind : std::uint8_t { V1, V2 };
  Kind kind = Kind::V1;
  std::string root;   // which part of the hierarchy is mounted there, "/" for the whole
  std::string point;  // where, as a host path
  std::set<std::string> controllers;  // of a v1 mount; a v2 mount says it in its own files

  friend bool operator==(const CgroupMount&, const CgroupMount&) = default;
};

// The cgroup mounts of /proc/self/mountinfo, at most kCgroupMountsMax, in its order.
[[nodiscard]] std::vector<CgroupMount> parse_cgroup_mounts(std::string_view mountinfo);

// /proc/self/cgroup: our group in each hierarchy, as the kernel names it. The v2 group has the
// empty name.
[[nodiscard]] std::map<std::string, std::string> parse_memberships(std::string_view text);

// Where `group` is visible below a mount; nothing when it lies outside of it.
[[nodiscard]] std::optional<std::string> host_path_of_group(const CgroupMount& mount,
                                                            std::string_view group);

// "memory pids cpu" → {cpu, memory, pids}.
[[nodiscard]] std::set<std::string> parse_controllers(std::string_view text);

// The largest range that /etc/subuid or /etc/subgid gives to a user, by name or by number.
[[nodiscard]] std::optional<IdRange> parse_sub_ids(std::string_view text, std::string_view user,
                                                   std::uint32_t uid);

// The name of `uid` in /etc/passwd. NSS is not asked: it loads libraries and may ask the network.
[[nodiscard]] std::optional<std::string> parse_user_name(std::string_view passwd,
                                                         std::uint32_t uid);

// "0-3,8" → 5. Nothing when it is not such a list.
[[nodiscard]] std::optional<int> parse_cpu_list(std::string_view text);

// Whether /proc/filesystems lists `name`.
[[nodiscard]] bool lists_filesystem(std::string_view filesystems, std::string_view name);

}  // namespace caisson::engine
