#include "egress/credentials/secret_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "policy/wording.h"
#include "sys/file.h"

namespace caisson::egress {

namespace {

using policy::in_quotes;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<std::string> beside(const std::string& path) {
  std::array<unsigned char, 8> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    return failure(Errc::Internal, "no random bytes");
  std::string name = path + ".new-";
  for (const unsigned char byte : bytes) name += fmt::format("{:02x}", byte);
  return name;
}

Result<void> write_all(int fd, std::string_view content, const std::string& shown) {
  while (!content.empty()) {
    const ssize_t wrote = ::write(fd, content.data(), content.size());
    const int error = errno;
    if (wrote < 0 && error == EINTR) continue;
    if (wrote < 0) return sys_failure("write " + shown, error);
    content.remove_prefix(static_cast<std::size_t>(wrote));
  }
  if (::fsync(fd) != 0) return sys_failure("sync " + shown, errno);
  return {};
}

// The file that is being written; it goes with us unless it got its name.
class Draft {
 public:
  explicit Draft(std::string path) : path_(std::move(path)) {}
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  void renamed() noexcept { path_.clear(); }

 private:
  std::string path_;
};

}  // namespace

Result<UniqueFd> open_private(const std::string& path) {
  const std::string shown = in_quotes(path);
  // O_NONBLOCK: a fifo nobody writes to would keep us here.
  UniqueFd fd =
      TRY(sys::open_at(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return sys_failure("stat " + shown, errno);
  if (!S_ISREG(info.st_mode)) return failure(Errc::Denied, shown + " is not a regular file");
  if ((info.st_mode & 077U) != 0) {
    return failure(Errc::Denied,
                   fmt::format("{} has mode {:04o}: others could read or change it; chmod 600",
                               shown, info.st_mode & 07777U));
  }
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return failure(Errc::Denied, fmt::format("{} belongs to user {}, not to us ({}) or root", shown,
                                             info.st_uid, ::geteuid()));
  }
  return fd;
}

Result<Secret> read_secret_file(const std::string& path, std::size_t bytes_max) {
  const UniqueFd fd = TRY(open_private(path));
  // One byte more than allowed, so that a file which is too long shows itself.
  Secret out = TRY(Secret::of_size(bytes_max + 1));
  std::size_t used = 0;
  while (used < out.size()) {
    const ssize_t got = ::read(fd.get(), out.fill().data() + used, out.size() - used);
    const int error = errno;
    if (got < 0 && error == EINTR) continue;
    if (got < 0) return sys_failure("read " + in_quotes(path), error);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  if (used > bytes_max) {
    return failure(Errc::TooLarge,
                   fmt::format("{} has more than {} bytes", in_quotes(path), bytes_max));
  }
  out.cut(used);
  return out;
}

Result<Secret> read_key_text(const std::string& path, std::size_t bytes_min) {
  Secret out = TRY(read_secret_file(path, kSecretBytesMax - 1));
  if (out.expose().ends_with('\n')) out.cut(out.size() - 1);
  if (out.expose().ends_with('\r')) out.cut(out.size() - 1);
  if (out.size() >= bytes_min) return out;
  return failure(Errc::InvalidArgument, fmt::format("{} holds {} bytes; a key has at least {}",
                                                    in_quotes(path), out.size(), bytes_min));
}

Result<void> write_private(const std::string& path, std::string_view content, Replace replace) {
  const std::string shown = in_quotes(path);
  const Result<std::string> name = beside(path);
  if (!name) return std::unexpected(name.error());
  const UniqueFd fd = TRY(
      sys::open_at(AT_FDCWD, *name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  Draft draft(*name);
  TRY(write_all(fd.get(), content, shown));
  if (replace == Replace::Yes) {
    if (::rename(draft.path().c_str(), path.c_str()) != 0)
      return sys_failure("rename " + shown, errno);
    draft.renamed();
  } else if (::link(draft.path().c_str(), path.c_str()) != 0) {
    // Unlike a rename, a link never takes the place of what is there.
    const int error = errno;
    if (error == EEXIST) return failure(Errc::AlreadyExists, shown + " exists");
    return sys_failure("link " + shown, error);
  }
  const UniqueFd folder =
      TRY(sys::open_at(AT_FDCWD, folder_of(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (::fsync(folder.get()) != 0) return sys_failure("sync the folder of " + shown, errno);
  return {};
}

}  // namespace caisson::egress
