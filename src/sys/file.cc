#include "sys/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "sys/raw.h"

namespace caisson::sys {
namespace {

constexpr int kRemoveDepthMax = 128;
constexpr std::size_t kRemoveEntriesMax = 1'000'000;

struct CloseDir {
  void operator()(DIR* dir) const noexcept { ::closedir(dir); }
};

Result<void> remove_below(int dir, const std::string& name, int depth);

Result<void> remove_entry(int dir, const std::string& name, int depth) {
  if (::unlinkat(dir, name.c_str(), 0) == 0) return {};
  const int reason = errno;
  if (reason != EISDIR && reason != EPERM) return sys_failure("remove " + name, reason);
  return remove_below(dir, name, depth);
}

Result<void> remove_below(int dir, const std::string& name, int depth) {
  if (depth > kRemoveDepthMax)
    return failure(Errc::Exhausted, "remove " + name + ": nested too deeply");
  const UniqueFd folder = TRY(open_at(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  const auto names = TRY(list_dir(folder.get(), kRemoveEntriesMax));
  for (const std::string& entry : names) TRY(remove_entry(folder.get(), entry, depth + 1));
  return remove_dir(dir, name);
}

}  // namespace

Result<UniqueFd> open_at(int dir, const std::string& path, int flags, unsigned mode) {
  UniqueFd fd(::openat(dir, path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd) return sys_failure("open " + path, errno);
  return fd;
}

Result<UniqueFd> open_beneath(int dir, const std::string& path, int flags) {
  UniqueFd fd(raw::openat2(dir, path.c_str(), static_cast<std::uint64_t>(flags) | O_CLOEXEC,
                           RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS));
  if (!fd) return sys_failure("open " + path, errno);
  return fd;
}

Result<std::string> read_again(int fd, std::size_t max) {
  std::string text;
  std::size_t used = 0;
  for (;;) {
    text.resize(std::min(max + 1, std::max<std::size_t>(4096, used * 2)));
    const ssize_t got =
        ::pread(fd, text.data() + used, text.size() - used, static_cast<off_t>(used));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys_failure("read", errno);
    used += static_cast<std::size_t>(got);
    if (got == 0) break;
    if (used > max)
      return failure(Errc::Exhausted, "read: more than " + std::to_string(max) + " bytes");
  }
  text.resize(used);
  return text;
}

Result<std::string> read_small(int dir, const std::string& path, std::size_t max) {
  const UniqueFd fd = TRY(open_at(dir, path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  return TRY_IN(path, read_again(fd.get(), max));
}

Result<void> write_once(int fd, std::string_view text) {
  const ssize_t put = ::write(fd, text.data(), text.size());
  if (put < 0) return sys_failure("write '" + std::string(text) + "'", errno);
  if (static_cast<std::size_t>(put) != text.size())
    return failure(Errc::Internal, "write: cut short");
  return {};
}

Result<void> write_once(int dir, const std::string& path, std::string_view text) {
  const UniqueFd fd = TRY(open_at(dir, path, O_WRONLY | O_NOCTTY));
  const auto written = write_once(fd.get(), text);
  if (!written) return std::unexpected(written.error().within(path));
  return {};
}

Result<void> make_dir(int dir, const std::string& path, unsigned mode, Existing existing) {
  if (::mkdirat(dir, path.c_str(), mode) == 0) return {};
  const int reason = errno;
  if (reason == EEXIST && existing == Existing::Accept) return {};
  return sys_failure("make folder " + path, reason);
}

Result<void> remove_dir(int dir, const std::string& path) {
  if (::unlinkat(dir, path.c_str(), AT_REMOVEDIR) != 0)
    return sys_failure("remove folder " + path, errno);
  return {};
}

Result<std::vector<std::string>> list_dir(int dir, std::size_t max) {
  UniqueFd again = TRY(open_at(dir, ".", O_RDONLY | O_DIRECTORY));
  const std::unique_ptr<DIR, CloseDir> stream(::fdopendir(again.get()));
  if (stream == nullptr) return sys_failure("list folder", errno);
  (void)again.release();  // the stream closes it now
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry =
             ::readdir(stream.get())) {  // NOLINT(concurrency-mt-unsafe): one stream, one thread
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (names.size() == max)
      return failure(Errc::Exhausted, "list folder: more than " + std::to_string(max));
    names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return sys_failure("list folder", errno);
  return names;
}

Result<void> remove_tree(int dir, const std::string& name) { return remove_entry(dir, name, 0); }

Result<UniqueFd> duplicate(int fd, int lowest) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, lowest));
  if (!copy) return sys_failure("duplicate a descriptor", errno);
  return copy;
}

Result<UniqueFd> park(UniqueFd fd) {
  if (fd.get() >= kParkedFdMin) return fd;
  return duplicate(fd.get(), kParkedFdMin);
}

ModeMask::ModeMask(unsigned mask) noexcept : before_(::umask(mask)) {}
ModeMask::~ModeMask() { (void)::umask(before_); }

Result<Pipe> make_pipe(int flags) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, flags | O_CLOEXEC) != 0) return sys_failure("make a pipe", errno);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<UniqueFd> reopen(int fd) {
  return open_at(AT_FDCWD, "/proc/self/fd/" + std::to_string(fd), O_RDONLY);
}

Result<UniqueFd> memory_file(const char* name) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC));
  if (!fd) return sys_failure("memfd_create", errno);
  return fd;
}

Result<UniqueFd> sealed_memfd(const char* name, std::span<const std::byte> content, unsigned mode) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return sys_failure("memfd_create", errno);
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t put = ::write(fd.get(), content.data() + done, content.size() - done);
    if (put < 0) return sys_failure("write a memfd", errno);
    done += static_cast<std::size_t>(put);
  }
  if (::fchmod(fd.get(), mode) != 0) return sys_failure("chmod a memfd", errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) !=
      0) {
    return sys_failure("seal a memfd", errno);
  }
  return fd;
}

Result<void> random_bytes(std::span<std::byte> out) {
  if (::getrandom(out.data(), out.size(), 0) != static_cast<ssize_t>(out.size())) {
    return sys_failure("getrandom", errno);
  }
  return {};
}

}  // namespace caisson::sys
