// Two domains stand behind each other. init enters one with scopes only (signals, abstract sockets)
// and no file rights; each tenant adds one with the file rules. So tenants of one sandbox can
// signal each other, and nothing outside.
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/init/config.h"
#include "guest/init/sys.h"

namespace caisson::init {
namespace {

using wire::Access;
using wire::Step;

constexpr uint64_t kExecute = 1U << 0;
constexpr uint64_t kWriteFile = 1U << 1;
constexpr uint64_t kReadFile = 1U << 2;
constexpr uint64_t kReadDir = 1U << 3;
constexpr uint64_t kMakeChar = 1U << 6;
constexpr uint64_t kMakeBlock = 1U << 11;
constexpr uint64_t kFirstAbi = (1U << 13) - 1;  // bits 0…12
constexpr uint64_t kRefer = 1U << 13;           // ABI 2
constexpr uint64_t kTruncate = 1U << 14;        // ABI 3
constexpr uint64_t kIoctlDevice = 1U << 15;     // ABI 5
constexpr uint64_t kFileRights = kExecute | kWriteFile | kReadFile | kTruncate | kIoctlDevice;

constexpr uint64_t kScopeAbstractSocket = 1U << 0;  // ABI 6
constexpr uint64_t kScopeSignal = 1U << 1;
constexpr long kAbiOfScopes = 6;
constexpr uint32_t kQueryVersion = 1;

struct RulesetAttributes {
  uint64_t handled_files;
  uint64_t handled_network;
  uint64_t scoped;
};

struct [[gnu::packed]] PathBeneath {
  uint64_t allowed;
  int32_t parent;
};

long abi() { return landlock_create_ruleset(nullptr, 0, kQueryVersion); }

uint64_t handled_rights(long version) {
  uint64_t rights = kFirstAbi;
  if (version >= 2) rights |= kRefer;
  if (version >= 3) rights |= kTruncate;
  if (version >= 5) rights |= kIoctlDevice;
  return rights;
}

uint64_t rights_of(Access access) {
  const uint64_t read = kExecute | kReadFile | kReadDir;
  switch (access) {
    case Access::Read:
      return read;
    case Access::Write:
      return ~(kMakeChar | kMakeBlock | kIoctlDevice);
    case Access::Device:
      return kReadFile | kWriteFile | kReadDir | kTruncate | kIoctlDevice;
  }
  return 0;
}

// A path that is not there grants nothing; every other failure is one.
StartFailure add_rule(int ruleset, uint64_t handled, Access access, wire::Bytes path) {
  char name[wire::kPathMax + 1];
  memcpy(name, path.data, path.size);
  name[path.size] = '\0';
  int fd = open(name, O_PATH | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return {};
  if (fd < 0) return {errno, Step::Landlock};
  struct stat info{};
  StartFailure result;
  uint64_t rights = rights_of(access) & handled;
  if (fstat(fd, &info) != 0) {
    result = {errno, Step::Landlock};
  } else {
    if (!S_ISDIR(info.st_mode)) rights &= kFileRights;
    const PathBeneath rule{rights, fd};
    const long added = landlock_add_path(ruleset, &rule);
    if (added < 0) result = {static_cast<int>(-added), Step::Landlock};
  }
  close_fd(fd);
  return result;
}

}  // namespace

StartFailure enter_scopes(bool sockets, int base) {
  const long version = abi();
  if (version < 1) return {ENOSYS, Step::Landlock};
  // Older kernels have no scopes. Signals then stay inside by the pid namespace alone, which the
  // plan knows; a socket scope that was asked for and cannot be given is a failure.
  if (version < kAbiOfScopes)
    return sockets ? StartFailure{ENOSYS, Step::Landlock} : StartFailure{};
  // Every ruleset denies renames and links between folders unless it grants them, whatever else it
  // handles. This one is about scopes only, so it grants them everywhere; the files' own ruleset
  // decides.
  const RulesetAttributes attributes{kRefer, 0,
                                     kScopeSignal | (sockets ? kScopeAbstractSocket : 0)};
  const long made = landlock_create_ruleset(&attributes, sizeof(attributes), 0);
  if (made < 0) return {static_cast<int>(-made), Step::Landlock};
  const int ruleset = static_cast<int>(made);
  StartFailure result;
  const PathBeneath everything{kRefer, base};
  const long added = landlock_add_path(ruleset, &everything);
  if (added < 0) result = {static_cast<int>(-added), Step::Landlock};
  if (result.ok()) {
    const long entered = landlock_restrict_self(ruleset);
    if (entered < 0) result = {static_cast<int>(-entered), Step::Landlock};
  }
  close(ruleset);
  return result;
}

StartFailure build_ruleset(wire::Bytes rules, uint32_t count) {
  const uint64_t handled = handled_rights(abi());
  // TCP rights are left alone: loopback must work, and the network namespace has nothing else.
  const RulesetAttributes attributes{handled, 0, 0};
  const size_t first_abi_size = sizeof(attributes.handled_files);
  const long made = landlock_create_ruleset(&attributes, first_abi_size, 0);
  if (made < 0) return {static_cast<int>(-made), Step::Landlock};
  const int ruleset = static_cast<int>(made);
  wire::Reader reader(rules);
  StartFailure result;
  for (uint32_t i = 0; i < count && result.ok(); ++i) {
    wire::LandlockRule rule{};
    wire::Bytes path;
    reader.take(rule);
    reader.take_bytes(rule.path_size, path);
    result = add_rule(ruleset, handled, static_cast<Access>(rule.access), path);
  }
  if (result.ok() && dup3(ruleset, kFdRuleset, O_CLOEXEC) < 0) result = {errno, Step::Landlock};
  if (ruleset != kFdRuleset) close(ruleset);
  return result;
}

}  // namespace caisson::init
