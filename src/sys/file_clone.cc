#include "sys/file_clone.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace caisson::sys {
namespace {

// Between file systems of two kinds the kernel copies no range.
Result<void> send_piece(int from, int to, off_t begin, off_t end) {
  if (::lseek(to, begin, SEEK_SET) != begin) return sys_failure("copy a file", errno);
  while (begin < end) {
    const ssize_t put = ::sendfile(to, from, &begin, static_cast<std::size_t>(end - begin));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return sys_failure("copy a file", put == 0 ? EIO : errno);
  }
  return {};
}

Result<void> copy_piece(int from, int to, off_t begin, off_t end) {
  off_t source = begin;
  off_t target = begin;
  while (source < end) {
    const ssize_t put =
        ::copy_file_range(from, &source, to, &target, static_cast<std::size_t>(end - source), 0);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EXDEV) return send_piece(from, to, source, end);
    if (put <= 0) return sys_failure("copy a file", put == 0 ? EIO : errno);
  }
  return {};
}

}  // namespace

Result<void> clone_file(int from, int to) {
  if (::ioctl(to, FICLONE, from) == 0) return {};
  struct stat facts{};
  if (::fstat(from, &facts) != 0 || ::ftruncate(to, facts.st_size) != 0)
    return sys_failure("size a copy of a file", errno);
  for (off_t at = 0; at < facts.st_size;) {
    const off_t begin = ::lseek(from, at, SEEK_DATA);
    if (begin < 0 && errno == ENXIO) return {};  // nothing but a hole is left
    const off_t end = begin < 0 ? -1 : ::lseek(from, begin, SEEK_HOLE);
    if (begin < 0 || end < 0) return sys_failure("find a file's data", errno);
    auto copied = copy_piece(from, to, begin, end);
    if (!copied) return copied;
    at = end;
  }
  return {};
}

}  // namespace caisson::sys
