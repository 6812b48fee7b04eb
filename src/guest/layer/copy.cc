#include "guest/layer/copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <vector>

namespace caisson::layer {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1024} * 1024;
constexpr std::size_t kShareBytes = std::size_t{64} * 1024 * 1024;

bool cannot_share(int error) {
  return error == EXDEV || error == EINVAL || error == EOPNOTSUPP || error == ENOSYS;
}

// By reading and writing, where the kernel cannot do it alone.
Result<void> copy_bytes(int from, int to, off_t at, off_t end, Meter& meter) {
  std::vector<std::byte> buffer(kPieceBytes);
  while (at < end) {
    const auto want = std::min(buffer.size(), static_cast<std::size_t>(end - at));
    const ssize_t got = ::pread(from, buffer.data(), want, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys_failure("read a file", errno);
    if (got == 0) break;
    TRY(meter.add_out(static_cast<std::uint64_t>(got)));
    if (::lseek(to, at, SEEK_SET) < 0) return sys_failure("seek", errno);
    TRY(write_all(to, std::span(buffer).first(static_cast<std::size_t>(got))));
    at += got;
  }
  return {};
}

Result<void> copy_range(int from, int to, off_t at, off_t end, Meter& meter) {
  while (at < end) {
    off64_t source = at;
    off64_t target = at;
    const auto want = std::min(kShareBytes, static_cast<std::size_t>(end - at));
    const ssize_t got = ::copy_file_range(from, &source, to, &target, want, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && cannot_share(errno)) return copy_bytes(from, to, at, end, meter);
    if (got < 0) return sys_failure("copy a file", errno);
    if (got == 0) return copy_bytes(from, to, at, end, meter);
    TRY(meter.add_out(static_cast<std::uint64_t>(got)));
    at += got;
  }
  return {};
}

Result<void> copy_file(int from, const std::string& name, const struct stat& facts, int to,
                       Meter& meter) {
  const UniqueFd source = TRY(open_file(from, name));
  const UniqueFd target(
      ::openat(to, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!target) return sys_failure("make '" + name + "'", errno);
  TRY(copy_content(source.get(), target.get(), static_cast<std::uint64_t>(facts.st_size), meter));
  const Attributes attributes = TRY(read_attributes(source.get()));
  TRY(write_attributes(target.get(), attributes.kept));
  TRY(set_owner(target.get(), facts.st_uid, facts.st_gid, facts.st_mode));
  return set_times(target.get(), facts.st_mtim);
}

}  // namespace

Result<void> copy_content(int from, int to, std::uint64_t size, Meter& meter) {
  const auto end = static_cast<off_t>(size);
  for (off_t at = 0; at < end;) {
    off_t data = ::lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // a hole up to the end
    if (data < 0) data = at;
    off_t hole = ::lseek(from, data, SEEK_HOLE);
    if (hole < 0 || hole > end) hole = end;
    if (data >= end) break;
    TRY(copy_range(from, to, data, hole, meter));
    at = hole;
  }
  if (::ftruncate(to, end) != 0) return sys_failure("set the size of a file", errno);
  meter.add_in(size);
  return {};
}

Result<void> copy_entry(int from, const std::string& name, const struct stat& facts, int to,
                        Meter& meter) {
  if (S_ISREG(facts.st_mode)) return copy_file(from, name, facts, to, meter);
  if (S_ISLNK(facts.st_mode)) {
    const std::string target = TRY(read_link(from, name));
    if (::symlinkat(target.c_str(), to, name.c_str()) != 0) {
      return sys_failure("make the link '" + name + "'", errno);
    }
  } else if (S_ISFIFO(facts.st_mode)) {
    if (::mknodat(to, name.c_str(), S_IFIFO | 0600, 0) != 0) {
      return sys_failure("make '" + name + "'", errno);
    }
  } else {
    return {};
  }
  TRY(set_entry_owner(to, name, facts.st_uid, facts.st_gid));
  // It is new and ours, so nobody can have put a link in its place.
  if (S_ISFIFO(facts.st_mode) && ::fchmodat(to, name.c_str(), facts.st_mode & 0777U, 0) != 0) {
    return sys_failure("set the mode of '" + name + "'", errno);
  }
  return set_entry_times(to, name, facts.st_mtim);
}

Result<UniqueFd> make_folder_like(int from, int to, const std::string& name, Opaque opaque) {
  struct stat facts{};
  if (::fstat(from, &facts) != 0) return sys_failure("look at the folder '" + name + "'", errno);
  if (::mkdirat(to, name.c_str(), 0700) != 0) return sys_failure("make '" + name + "'", errno);
  UniqueFd made = TRY(open_folder(to, name));
  const Attributes attributes = TRY(read_attributes(from));
  TRY(write_attributes(made.get(), attributes.kept));
  if (opaque == Opaque::Yes) TRY(mark_opaque(made.get()));
  TRY(set_owner(made.get(), facts.st_uid, facts.st_gid, facts.st_mode));
  return made;
}

}  // namespace caisson::layer
