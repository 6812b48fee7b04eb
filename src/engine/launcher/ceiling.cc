#include "engine/launcher/ceiling.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>

#include "sys/file.h"

namespace caisson::engine {
namespace {

struct Key {
  std::string_view name;
  std::uint64_t Ceiling::* bound;
};
constexpr Key kKeys[] = {{"memory_bytes_max", &Ceiling::memory_bytes_max},
                         {"processes_max", &Ceiling::processes_max},
                         {"sandboxes_max", &Ceiling::sandboxes_max},
                         {"cpu_millis_max", &Ceiling::cpu_millis_max},
                         {"disk_bytes_max", &Ceiling::disk_bytes_max}};

struct Permission {
  std::string_view name;
  bool Ceiling::* granted;
};
constexpr Permission kPermissions[] = {{"folders", &Ceiling::folders}, {"debug", &Ceiling::debug}};

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

Result<void> take_line(Ceiling& ceiling, std::string_view key, std::string_view value) {
  for (const Permission& known : kPermissions) {
    if (known.name != key) continue;
    if (value != "yes" && value != "no") {
      return bad_field(std::string(key),
                       std::string(key) + ": want yes or no, got '" + std::string(value) + "'");
    }
    ceiling.*known.granted = value == "yes";
    return {};
  }
  for (const Key& known : kKeys) {
    if (known.name != key) continue;
    std::uint64_t bound = 0;
    const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), bound);
    if (wrong != std::errc() || end != value.data() + value.size() || bound == 0) {
      return bad_field(std::string(key), std::string(key) + ": want a whole number above 0, got '" +
                                             std::string(value) + "'");
    }
    ceiling.*known.bound = bound;
    return {};
  }
  return bad_field(std::string(key), "'" + std::string(key) + "' is not a key of the ceiling file");
}

Result<void> within(std::string_view key, std::uint64_t bound, std::uint64_t asked,
                    std::string_view field) {
  if (bound == 0 || (asked != 0 && asked <= bound)) return {};
  const std::string what = asked == 0 ? std::string("no limit") : std::to_string(asked);
  return std::unexpected(Error{Errc::Denied,
                               std::string(field) + ": " + what + " is beyond " + std::string(key) +
                                   " " + std::to_string(bound) +
                                   " of this host's ceiling; ask for less",
                               0, std::string(field)});
}

}  // namespace

Result<Ceiling> parse_ceiling(std::string_view text) {
  Ceiling ceiling;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::size_t gap = std::min(line.find_first_of(" \t"), line.size());
    TRY(take_line(ceiling, line.substr(0, gap), trim(line.substr(gap))));
  }
  return ceiling;
}

Result<Ceiling> load_ceiling(const std::string& state_dir) {
  const std::string path = state_dir + "/launcher/ceiling";
  const auto file = sys::open_at(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file && file.error().sys_errno == ENOENT) return Ceiling{};
  // Internal: who asks for a sandbox can do nothing about it, and the host's paths are not for him.
  const auto refuse = [&](const std::string& why) {
    return failure(Errc::Internal, "the ceiling file " + path + ": " + why);
  };
  if (!file) return refuse(file.error().message);
  struct stat facts{};
  if (::fstat(file->get(), &facts) != 0 || !S_ISREG(facts.st_mode))
    return refuse("not a regular file");
  if (facts.st_uid != 0 || (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return refuse("others than root can write it; want owner root and mode 0600");
  const auto text = sys::read_again(file->get(), kCeilingBytesMax);
  if (!text) return refuse(text.error().message);
  const auto parsed = parse_ceiling(*text);
  if (!parsed) return refuse(parsed.error().message);
  return *parsed;
}

Result<void> permit(const Ceiling& ceiling, const Limits& limits) {
  TRY(within("memory_bytes_max", ceiling.memory_bytes_max, limits.memory_bytes, "memory_bytes"));
  TRY(within("processes_max", ceiling.processes_max, limits.processes, "processes"));
  TRY(within("cpu_millis_max", ceiling.cpu_millis_max, limits.cpu_millis, "cpu_millis"));
  return within("disk_bytes_max", ceiling.disk_bytes_max, limits.disk_bytes, "disk_bytes");
}

Result<void> permit(const Ceiling& ceiling, const LaunchRequest& request, std::size_t living) {
  if (!ceiling.folders && !request.folders.empty()) {
    return std::unexpected(Error{Errc::Denied,
                                 "folders: this host's ceiling says folders no: a server shows no "
                                 "folder of the host in a sandbox",
                                 0, "folders"});
  }
  if (!ceiling.debug && seccomp::has(request.profile, seccomp::Profile::Debug)) {
    return std::unexpected(Error{Errc::Denied,
                                 "profile: this host's ceiling says debug no: processes of a "
                                 "server's sandboxes do not trace each other",
                                 0, "profile"});
  }
  if (ceiling.sandboxes_max != 0 && living >= ceiling.sandboxes_max) {
    return failure(Errc::Denied, "this host's ceiling says sandboxes_max " +
                                     std::to_string(ceiling.sandboxes_max) +
                                     ", and as many are alive");
  }
  return permit(ceiling, request.limits);
}

}  // namespace caisson::engine
