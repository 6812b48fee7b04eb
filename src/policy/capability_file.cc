// The one place of this room that touches a file.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "policy/capability_parser.h"
#include "policy/wording.h"
#include "policy/yaml_tree.h"

namespace caisson::policy {

namespace {

Result<std::string> read_bounded(const std::string& path) {
  const std::string shown = in_quotes(path);
  if (path.find('\0') != std::string::npos) {
    return failure(Errc::InvalidArgument, shown + ": a NUL byte in the path");
  }
  // O_NONBLOCK: opening a fifo nobody writes to would wait for ever, before we could see that it is
  // one.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return sys_failure("open " + shown, errno);
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return sys_failure("stat " + shown, errno);
  if (!S_ISREG(info.st_mode)) {
    return failure(Errc::InvalidArgument, shown + " is not a regular file");
  }
  // One byte more than allowed, so that a file which is too long, or grows meanwhile, shows itself.
  std::string text(kCapabilityBytesMax + 1, '\0');
  std::size_t used = 0;
  while (used < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys_failure("read " + shown, errno);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  if (used > kCapabilityBytesMax) {
    return failure(Errc::InvalidArgument,
                   fmt::format("{} is larger than {} bytes", shown, kCapabilityBytesMax));
  }
  text.resize(used);
  return text;
}

}  // namespace

Result<CapabilityDeclaration> CapabilityParser::from_file(const std::string& path) {
  const std::string text = TRY_IN("capability validation error", read_bounded(path));
  return from_string(text);
}

}  // namespace caisson::policy
