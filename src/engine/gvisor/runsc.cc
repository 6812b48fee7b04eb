#include "engine/gvisor/runsc.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "sys/file.h"
#include "sys/spawn.h"

namespace caisson::engine::gvisor {
namespace {

constexpr std::array<const char*, 4> kPlaces{"/usr/local/sbin/runsc", "/usr/local/bin/runsc",
                                             "/usr/bin/runsc", "/opt/bin/runsc"};
constexpr std::size_t kAnswerBytesMax = 256UL * 1024;
constexpr const char* kMemory = "runsc.known";

// Closed whatever the version's own default is. Each is needed: without the flag nobody says that
// the wall is there.
struct Needed {
  std::string_view flag;
  std::string_view value;
};
constexpr Needed kNeeded[] = {{"network", "none"},      {"ignore-cgroups", "true"},
                              {"host-uds", "none"},     {"host-fifo", "none"},
                              {"overlay2", "none"},     {"net-raw", "false"},
                              {"oci-seccomp", "false"}, {"file-access", "exclusive"}};
// Newer versions have these, and they open something.
constexpr Needed kWhereKnown[] = {{"directfs", "false"}, {"fsgofer-host-uds", "false"}};

bool knows(std::string_view flags, std::string_view flag) {
  const std::string wanted = fmt::format("  -{}", flag);
  for (std::size_t at = flags.find(wanted); at != std::string_view::npos;
       at = flags.find(wanted, at + 1)) {
    const std::size_t end = at + wanted.size();
    const bool whole = end == flags.size() || flags[end] == '\n' || flags[end] == ' ';
    if (whole && (at == 0 || flags[at - 1] == '\n')) return true;
  }
  return false;
}

std::string_view version_of(std::string_view text) {
  constexpr std::string_view kWord = "runsc version ";
  const std::size_t at = text.find(kWord);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + kWord.size());
  return text.substr(0, text.find('\n'));
}

Result<std::string> answer(const std::string& program, const std::string& question) {
  sys::Pipe out = TRY(sys::make_pipe());
  const sys::HandedFd handed[] = {{nullptr, out.write.get(), 1}, {nullptr, out.write.get(), 2}};
  auto child = TRY(sys::spawn(program, {question}, handed, sys::Session::Own));
  out.write.reset();
  std::string text(kAnswerBytesMax, '\0');
  std::size_t size = 0;
  for (;;) {
    const ssize_t got = ::read(out.read.get(), text.data() + size, text.size() - size);
    if (got < 0) return sys_failure("read what runsc says", errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  (void)TRY(child.wait());
  return text;
}

std::string identity(const std::string& path, const struct stat& facts) {
  return fmt::format("{} {} {} {} {}.{}", path, facts.st_dev, facts.st_ino, facts.st_size,
                     facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
}

void remember(int dir, const std::string& text) {
  const std::string fresh = std::string(kMemory) + ".new";
  (void)::unlinkat(dir, fresh.c_str(), 0);
  const auto file = sys::open_at(dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (file && sys::write_once(file->get(), text))
    (void)::renameat(dir, fresh.c_str(), dir, kMemory);
}

}  // namespace

std::string find_runsc() {
  for (const char* place : kPlaces) {
    if (::access(place, X_OK) == 0) return place;
  }
  return {};
}

Result<Runsc> judge(std::string_view version, std::string_view flags) {
  Runsc found;
  found.version = std::string(version_of(version));
  if (found.version.empty())
    return failure(Errc::Unsupported, "gvisor: runsc does not say its version");
  const std::size_t platforms = flags.find("  -platform ");
  const std::string_view choice =
      platforms == std::string_view::npos ? "" : flags.substr(platforms, 300);
  found.platform = choice.find("systrap") != std::string_view::npos ? "systrap" : "ptrace";
  found.flags.push_back("--platform=" + found.platform);
  for (const Needed& one : kNeeded) {
    if (!knows(flags, one.flag))
      return failure(Errc::Unsupported,
                     fmt::format("gvisor: runsc {} does not know --{}; install a newer one",
                                 found.version, one.flag));
    found.flags.push_back(fmt::format("--{}={}", one.flag, one.value));
  }
  for (const Needed& one : kWhereKnown) {
    if (knows(flags, one.flag)) found.flags.push_back(fmt::format("--{}={}", one.flag, one.value));
  }
  return found;
}

Result<Runsc> examine(int memory_dir) {
  const std::string path = find_runsc();
  if (path.empty())
    return failure(Errc::Unsupported,
                   "gvisor: runsc is not installed on this host; install the package runsc");
  UniqueFd program = TRY(sys::open_at(AT_FDCWD, path, O_RDONLY));
  struct stat facts{};
  if (::fstat(program.get(), &facts) != 0) return sys_failure("look at " + path, errno);
  const std::string wanted = identity(path, facts);
  std::string version;
  std::string flags;
  if (memory_dir >= 0) {
    const auto known = sys::read_small(memory_dir, kMemory);
    const auto parts_at = known ? known->find('\f') : std::string::npos;
    if (known && parts_at != std::string::npos && known->substr(0, parts_at) == wanted) {
      const std::size_t second = known->find('\f', parts_at + 1);
      if (second != std::string::npos) {
        version = known->substr(parts_at + 1, second - parts_at - 1);
        flags = known->substr(second + 1);
      }
    }
  }
  if (flags.empty()) {
    version = TRY_IN("gvisor", answer(path, "--version"));
    flags = TRY_IN("gvisor", answer(path, "flags"));
    if (memory_dir >= 0) remember(memory_dir, wanted + '\f' + version + '\f' + flags);
  }
  Runsc found = TRY(judge(version, flags));
  found.program = TRY(sys::park(std::move(program)));
  return found;
}

}  // namespace caisson::engine::gvisor
