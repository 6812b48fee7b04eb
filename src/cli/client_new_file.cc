#include "cli/client_new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "policy/wording.h"

namespace caisson::cli {

Result<void> write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return sys_failure("write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

Result<NewFile> NewFile::make(const std::string& path) {
  std::string name = path + ".caisson-XXXXXX";
  UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd) return sys_failure("make " + policy::printable(path), errno);
  return NewFile(path, std::move(name), std::move(fd));
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      name_(std::exchange(other.name_, {})),
      fd_(std::move(other.fd_)) {}

NewFile::~NewFile() {
  if (!name_.empty()) ::unlink(name_.c_str());
}

Result<void> NewFile::finish(unsigned mode) {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(fd_.get(), mode & ~mask) != 0) return sys_failure("set the mode", errno);
  if (::rename(name_.c_str(), path_.c_str()) != 0)
    return sys_failure("make " + policy::printable(path_), errno);
  name_.clear();
  return {};
}

}  // namespace caisson::cli
