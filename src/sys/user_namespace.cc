#include "sys/user_namespace.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cerrno>

#include "sys/file.h"

namespace caisson::sys {
namespace {

constexpr int kNestingMax = 33;  // the kernel's own limit, and us

Result<struct stat> identity_of(int fd) {
  struct stat facts{};
  if (::fstat(fd, &facts) != 0) return sys_failure("look at a user namespace", errno);
  return facts;
}

}  // namespace

Result<UniqueFd> outermost_user_namespace(const std::string& pid) {
  const UniqueFd own = TRY(open_at(AT_FDCWD, "/proc/self/ns/user", O_RDONLY));
  const struct stat ours = TRY(identity_of(own.get()));
  UniqueFd below = TRY(open_at(AT_FDCWD, "/proc/" + pid + "/ns/user", O_RDONLY));
  for (int depth = 0; depth < kNestingMax; ++depth) {
    UniqueFd above(::ioctl(below.get(), NS_GET_PARENT));
    if (!above) return sys_failure("find a user namespace", errno);
    if (::fcntl(above.get(), F_SETFD, FD_CLOEXEC) != 0)
      return sys_failure("find a user namespace", errno);
    const struct stat facts = TRY(identity_of(above.get()));
    if (facts.st_dev == ours.st_dev && facts.st_ino == ours.st_ino) return below;
    below = std::move(above);
  }
  return failure(Errc::Internal, "process " + pid + " is in no user namespace of ours");
}

}  // namespace caisson::sys
