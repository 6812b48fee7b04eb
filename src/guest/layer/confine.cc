#include "guest/layer/confine.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "guest/protocol/codec.h"

namespace caisson::layer {
namespace {

using wire::Step;

// Landlock's numbers, by the version of its interface: the build's headers may be older.
constexpr std::uint64_t kWriteFile = 1U << 1;
constexpr std::uint64_t kReadFile = 1U << 2;
constexpr std::uint64_t kReadFolder = 1U << 3;
constexpr std::uint64_t kMakeBlock = 1U << 11;
constexpr std::uint64_t kFirstAbi = (1U << 13) - 1;
constexpr std::uint64_t kRefer = 1U << 13;        // 2
constexpr std::uint64_t kTruncate = 1U << 14;     // 3
constexpr std::uint64_t kIoctlDevice = 1U << 15;  // 5
constexpr std::uint64_t kExecute = 1U << 0;
constexpr std::uint64_t kFileRights = kExecute | kWriteFile | kReadFile | kTruncate | kIoctlDevice;
constexpr std::uint64_t kScopes = 3;  // abstract sockets and signals
constexpr long kAbiOfScopes = 6;
constexpr std::uint32_t kQueryVersion = 1;
constexpr int kRulePath = 1;

struct RulesetAttributes {
  std::uint64_t files;
  std::uint64_t network;
  std::uint64_t scoped;
};

struct [[gnu::packed]] PathBeneath {
  std::uint64_t allowed;
  std::int32_t parent;
};

std::uint64_t handled_rights(long version) {
  std::uint64_t rights = kFirstAbi;
  if (version >= 2) rights |= kRefer;
  if (version >= 3) rights |= kTruncate;
  if (version >= 5) rights |= kIoctlDevice;
  return rights;
}

std::uint64_t rights_of(wire::Access access) {
  switch (access) {
    case wire::Access::Read:
      return kReadFile | kReadFolder;
    case wire::Access::Write:
      // A whiteout is a character device. Without a privilege it can only be 0:0, which is none.
      return ~(kExecute | kMakeBlock | kIoctlDevice);
    case wire::Access::Device:
      return kReadFile | kWriteFile;
  }
  return 0;
}

// A path that is not there grants nothing; every other failure is one.
StartFailure add_rule(int ruleset, std::uint64_t handled, wire::Access access,
                      const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd && errno == ENOENT) return {};
  struct stat facts{};
  if (!fd || ::fstat(fd.get(), &facts) != 0) return {errno, Step::Landlock};
  std::uint64_t rights = rights_of(access) & handled;
  if (!S_ISDIR(facts.st_mode)) rights &= kFileRights;
  const PathBeneath rule{rights, fd.get()};
  if (::syscall(SYS_landlock_add_rule, ruleset, kRulePath, &rule, 0) != 0) {
    return {errno, Step::Landlock};
  }
  return {};
}

StartFailure enter_landlock(const wire::ConfigView& view) {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kQueryVersion);
  if (version < 1) return {ENOSYS, Step::Landlock};
  const bool scopes = version >= kAbiOfScopes;
  const RulesetAttributes attributes{handled_rights(version), 0, scopes ? kScopes : 0};
  const std::size_t size = scopes ? sizeof(attributes) : sizeof(attributes.files);
  const UniqueFd ruleset(
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
  if (!ruleset) return {errno, Step::Landlock};
  wire::Reader reader(view.rules);
  for (std::uint32_t i = 0; i < view.config.rule_count; ++i) {
    wire::LandlockRule rule{};
    wire::Bytes path;
    if (!reader.take(rule) || !reader.take_bytes(rule.path_size, path)) {
      return {EINVAL, Step::Request};
    }
    const std::string name(reinterpret_cast<const char*>(path.data), path.size);
    const StartFailure added =
        add_rule(ruleset.get(), attributes.files, static_cast<wire::Access>(rule.access), name);
    if (!added.ok()) return added;
  }
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) return {errno, Step::Landlock};
  return {};
}

bool set_limit(__rlimit_resource which, rlim_t value) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0) return false;
  if (limit.rlim_max != RLIM_INFINITY && value > limit.rlim_max) value = limit.rlim_max;
  limit.rlim_cur = value;
  limit.rlim_max = value;
  return ::setrlimit(which, &limit) == 0;
}

StartFailure set_limits(const wire::InitConfig& config) {
  // A deep tree needs a descriptor for each folder on the way, so as many as there may be.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return {errno, Step::Rlimit};
  if (!set_limit(RLIMIT_NOFILE, files.rlim_max)) return {errno, Step::Rlimit};
  if (!set_limit(RLIMIT_CORE, config.core_bytes)) return {errno, Step::Rlimit};
  if (config.file_bytes != 0 && !set_limit(RLIMIT_FSIZE, config.file_bytes)) {
    return {errno, Step::Rlimit};
  }
  // Beyond that limit a write shall fail and be told, not end us.
  if (::signal(SIGXFSZ, SIG_IGN) == SIG_ERR) return {errno, Step::Rlimit};
  return {};
}

StartFailure enter_filter(wire::Bytes filter) {
  if (filter.size == 0) return {};
  static_assert(sizeof(sock_filter) == 8);
  std::vector<sock_filter> program(filter.size / sizeof(sock_filter));
  __builtin_memcpy(program.data(), filter.data, filter.size);
  const sock_fprog all{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all, 0, 0) != 0) return {errno, Step::Seccomp};
  return {};
}

}  // namespace

StartFailure confine(std::span<const std::uint8_t> message) {
  wire::ConfigView view;
  const wire::Check check = wire::parse_config(wire::Bytes{message.data(), message.size()}, view);
  if (check == wire::Check::TooMuch) return {E2BIG, Step::Limit};
  if (check != wire::Check::Ok) return {EINVAL, Step::Request};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return {errno, Step::Ids};
  const StartFailure limited = set_limits(view.config);
  if (!limited.ok()) return limited;
  const bool landlock = (view.config.flags & wire::kConfigLandlock) != 0;
  if (landlock) {
    const StartFailure entered = enter_landlock(view);
    if (!entered.ok()) return entered;
  }
  return enter_filter(view.filter);
}

}  // namespace caisson::layer
