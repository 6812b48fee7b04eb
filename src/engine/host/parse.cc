#include "engine/host/parse.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace caisson::engine {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

// Takes the text before `separator` off the front; the rest when there is none.
std::string_view cut(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

template <class Number>
std::optional<Number> to_number(std::string_view text) {
  Number value{};
  const char* const begin = text.begin();
  const char* const end = text.end();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc{} || stop != end || text.empty()) return std::nullopt;
  return value;
}

// mountinfo writes blank, tab, newline and backslash as three octal digits.
std::string unescape(std::string_view text) {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && text[i + 1] <= '3' && octal(text[i + 1]) &&
        octal(text[i + 2]) && octal(text[i + 3])) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                               (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Among the super block's options stand flags too ("rw", "xattr", "name=systemd"), so the names are
// listed here.
bool is_v1_controller(std::string_view word) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "misc",
       "net_cls", "net_prio", "perf_event", "pids", "rdma"});
  return std::ranges::find(kNames, word) != kNames.end();
}

// 36 35 98:0 /root /point rw,noatime shared:1 - type source super,options
std::optional<CgroupMount> parse_mount(std::string_view line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string_view::npos) return std::nullopt;
  std::string_view tail = line.substr(dash + 3);
  const std::string_view type = cut(tail, ' ');
  if (type != "cgroup" && type != "cgroup2") return std::nullopt;
  cut(tail, ' ');  // the source's name, which anybody may choose
  std::string_view head = line.substr(0, dash);
  for (int skipped = 0; skipped < 3; ++skipped) cut(head, ' ');
  CgroupMount mount;
  mount.kind = type == "cgroup2" ? CgroupMount::Kind::V2 : CgroupMount::Kind::V1;
  mount.root = unescape(cut(head, ' '));
  mount.point = unescape(cut(head, ' '));
  if (!mount.root.starts_with('/') || !mount.point.starts_with('/')) return std::nullopt;
  if (mount.kind == CgroupMount::Kind::V1) {
    for (std::string_view options = trim(tail); !options.empty();) {
      const std::string_view word = cut(options, ',');
      if (is_v1_controller(word)) mount.controllers.emplace(word);
    }
  }
  return mount;
}

// "alice:100000:65536"
std::optional<IdRange> parse_range(std::string_view line, std::string_view user,
                                   std::string_view uid) {
  const std::string_view owner = cut(line, ':');
  if (owner.empty() || (owner != user && owner != uid)) return std::nullopt;
  const auto start = to_number<std::uint32_t>(cut(line, ':'));
  const auto count = to_number<std::uint32_t>(trim(line));
  if (!start || !count || *start == 0 || *count == 0) return std::nullopt;
  if (*count > std::numeric_limits<std::uint32_t>::max() - *start) return std::nullopt;
  return IdRange{.start = *start, .count = *count};
}

}  // namespace

std::optional<KernelVersion> parse_release(std::string_view release) {
  const auto major = to_number<int>(cut(release, '.'));
  const std::size_t digits = release.find_first_not_of("0123456789");
  const auto minor = to_number<int>(release.substr(0, digits));
  if (!major || !minor || *major < 0) return std::nullopt;
  return KernelVersion{.major = *major, .minor = *minor};
}

std::vector<CgroupMount> parse_cgroup_mounts(std::string_view mountinfo) {
  std::vector<CgroupMount> mounts;
  while (!mountinfo.empty() && mounts.size() < kCgroupMountsMax) {
    auto mount = parse_mount(cut(mountinfo, '\n'));
    if (mount) mounts.push_back(*std::move(mount));
  }
  return mounts;
}

std::map<std::string, std::string> parse_memberships(std::string_view text) {
  std::map<std::string, std::string> groups;
  while (!text.empty() && groups.size() < kControllersMax) {
    std::string_view line = cut(text, '\n');
    const std::string_view hierarchy = cut(line, ':');
    std::string_view names = cut(line, ':');
    if (!line.starts_with('/')) continue;
    if (hierarchy == "0" && names.empty()) groups.emplace("", line);
    while (!names.empty() && groups.size() < kControllersMax) groups.emplace(cut(names, ','), line);
  }
  return groups;
}

std::optional<std::string> host_path_of_group(const CgroupMount& mount, std::string_view group) {
  // A group above the root of our cgroup namespace is shown as "/../…": no mount of ours reaches
  // it.
  if (!group.starts_with('/') || group.starts_with("/../") || group == "/..") return std::nullopt;
  if (mount.root != "/") {
    if (!group.starts_with(mount.root)) return std::nullopt;
    group.remove_prefix(mount.root.size());
    if (!group.empty() && !group.starts_with('/')) return std::nullopt;
  }
  if (group == "/") group = {};
  return mount.point + std::string(group);
}

std::set<std::string> parse_controllers(std::string_view text) {
  std::set<std::string> names;
  for (text = trim(text); !text.empty() && names.size() < kControllersMax;) {
    const std::string_view name = trim(cut(text, ' '));
    if (!name.empty()) names.emplace(name);
  }
  return names;
}

std::optional<IdRange> parse_sub_ids(std::string_view text, std::string_view user,
                                     std::uint32_t uid) {
  const std::string number = std::to_string(uid);
  std::optional<IdRange> best;
  for (std::size_t lines = 0; !text.empty() && lines < kIdLinesMax; ++lines) {
    const auto range = parse_range(cut(text, '\n'), user, number);
    if (range && (!best || range->count > best->count)) best = range;
  }
  return best;
}

std::optional<std::string> parse_user_name(std::string_view passwd, std::uint32_t uid) {
  for (std::size_t lines = 0; !passwd.empty() && lines < kIdLinesMax; ++lines) {
    std::string_view line = cut(passwd, '\n');
    const std::string_view name = cut(line, ':');
    cut(line, ':');  // the password's place
    if (!name.empty() && to_number<std::uint32_t>(cut(line, ':')) == uid) return std::string(name);
  }
  return std::nullopt;
}

std::optional<int> parse_cpu_list(std::string_view text) {
  int total = 0;
  for (text = trim(text); !text.empty();) {
    std::string_view part = cut(text, ',');
    const bool range = part.find('-') != std::string_view::npos;
    const auto first = to_number<int>(cut(part, '-'));
    const auto last = range ? to_number<int>(part) : first;
    if (!first || !last || *first < 0 || *last < *first || *last >= kCpusMax) return std::nullopt;
    total += *last - *first + 1;
    if (total > kCpusMax) return std::nullopt;
  }
  if (total == 0) return std::nullopt;
  return total;
}

bool lists_filesystem(std::string_view filesystems, std::string_view name) {
  while (!filesystems.empty()) {
    std::string_view line = cut(filesystems, '\n');
    cut(line, '\t');
    if (trim(line) == name) return true;
  }
  return false;
}

}  // namespace caisson::engine
