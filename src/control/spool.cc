#include "control/spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/on_worker.h"
#include "sys/file.h"

namespace caisson::control {
namespace {

Result<void> write_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && (errno == ENOSPC || errno == EDQUOT))
      return failure(Errc::StoreFull, "the server's disk is full; free some space");
    if (put < 0) return sys_failure("write to a file of the server", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return {};
}

}  // namespace

Result<UniqueFd> nameless_file(const std::string& folder) {
  return sys::open_at(AT_FDCWD, folder, O_RDWR | O_TMPFILE, 0600);
}

Result<std::shared_ptr<FileSpool>> FileSpool::make(const std::string& folder,
                                                   boost::asio::thread_pool& disk) {
  return std::make_shared<FileSpool>(TRY(nameless_file(folder)), disk);
}

awaitable<Result<void>> FileSpool::write(std::span<const std::byte> bytes) {
  if (bytes.size() > kSpoolBytesMax - size_)
    co_return failure(Errc::TooLarge, "more than 16 GiB in one piece");
  auto work = [fd = file_.get(), bytes, offset = size_] { return write_at(fd, bytes, offset); };
  auto done = co_await on_worker(disk_, std::move(work));
  if (done) size_ += bytes.size();
  co_return done;
}

awaitable<Result<std::size_t>> FileSpool::read(std::uint64_t offset, std::span<std::byte> out) {
  auto work = [fd = file_.get(), offset, out]() -> Result<std::size_t> {
    for (;;) {
      const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) return sys_failure("read a file of the server", errno);
    }
  };
  co_return co_await on_worker(disk_, std::move(work));
}

Result<UniqueFd> FileSpool::descriptor() const {
  UniqueFd copy(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return sys_failure("share a file of the server", errno);
  if (::lseek(copy.get(), 0, SEEK_SET) != 0) return sys_failure("rewind", errno);
  return copy;
}

Result<void> FileSpool::measure() {
  struct stat facts{};
  if (::fstat(file_.get(), &facts) != 0) return sys_failure("measure a file of the server", errno);
  size_ = static_cast<std::uint64_t>(facts.st_size);
  return {};
}

}  // namespace caisson::control
