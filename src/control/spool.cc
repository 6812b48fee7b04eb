#include "control/spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
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

std::uint64_t SpoolAccounts::Account::room() const {
  const auto own = sums_->tenants.find(tenant_);
  const std::uint64_t used = own == sums_->tenants.end() ? 0 : own->second;
  return std::min(kSpoolBytesMax - std::min(used, kSpoolBytesMax),
                  kSpoolAllBytesMax - std::min(sums_->all, kSpoolAllBytesMax));
}

void SpoolAccounts::Account::set(std::uint64_t bytes) {
  std::uint64_t& own = sums_->tenants[tenant_];
  own = own - bytes_ + bytes;
  sums_->all = sums_->all - bytes_ + bytes;
  bytes_ = bytes;
  if (own == 0) sums_->tenants.erase(tenant_);
}

Result<std::shared_ptr<FileSpool>> FileSpool::make(
    const std::string& folder, boost::asio::thread_pool& disk,
    std::unique_ptr<SpoolAccounts::Account> account) {
  return std::make_shared<FileSpool>(TRY(nameless_file(folder)), disk, std::move(account));
}

std::uint64_t FileSpool::room() const {
  struct statvfs facts{};
  if (::fstatvfs(file_.get(), &facts) != 0) return 0;
  const std::uint64_t free = std::uint64_t{facts.f_bavail} * facts.f_frsize;
  return std::min(account_->room(), free - std::min(free, kSpoolFreeBytesMin));
}

awaitable<Result<void>> FileSpool::write(std::span<const std::byte> bytes) {
  if (bytes.size() > account_->room())
    co_return failure(
        Errc::TooLarge,
        "the server holds more than enough of this caller's bytes; send less, or wait "
        "until his other calls are over");
  if (bytes.size() > room())
    co_return failure(Errc::StoreFull, "the server's disk is nearly full; free some space");
  account_->set(size_ + bytes.size());
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
  account_->set(size_);
  return {};
}

}  // namespace caisson::control
