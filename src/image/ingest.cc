#include "image/ingest.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "sys/file.h"

namespace caisson::image {

namespace {

// Written out early, so that the fsync at the end finds little left to do.
constexpr std::uint64_t kFlushBytes = 8ULL * 1024 * 1024;

}  // namespace

Ingest::State::~State() {
  if (!keep) (void)::unlinkat(core.ingest.get(), name.c_str(), 0);
  if (!digest.empty()) {
    const std::scoped_lock lock(core.mutex);
    core.arriving.erase(digest);
  }
}

Ingest::Ingest(std::unique_ptr<State> state) : state_(std::move(state)) {}
Ingest::Ingest(Ingest&&) noexcept = default;
Ingest& Ingest::operator=(Ingest&&) noexcept = default;
Ingest::~Ingest() = default;

std::uint64_t Ingest::offset() const noexcept { return state_->offset; }

Result<void> Ingest::write(std::span<const std::byte> bytes) {
  State& s = *state_;
  if (bytes.size() > s.size_max - s.offset) {
    return failure(Errc::TooLarge,
                   fmt::format("more than the {} bytes that it was said to have", s.size_max));
  }
  while (!bytes.empty()) {
    if (s.offset >= s.checked) {
      TRY(s.core.check_space(std::min(kFlushBytes, s.size_max - s.offset)));
      if (s.offset >= kFlushBytes) {
        (void)::sync_file_range(s.fd.get(), static_cast<off_t>(s.offset - kFlushBytes),
                                static_cast<off_t>(kFlushBytes), SYNC_FILE_RANGE_WRITE);
      }
      s.checked = s.offset + kFlushBytes;
    }
    const ssize_t done =
        ::pwrite(s.fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(s.offset));
    const int sys_errno = errno;
    if (done < 0 && sys_errno == EINTR) continue;
    if (done < 0) return write_failure("write a blob", sys_errno);
    const auto size = static_cast<std::size_t>(done);
    s.hasher.update(bytes.first(size));
    s.offset += size;
    bytes = bytes.subspan(size);
  }
  return {};
}

Result<void> Ingest::restart() {
  State& s = *state_;
  if (::ftruncate(s.fd.get(), 0) != 0) return write_failure("begin a blob anew", errno);
  s.offset = 0;
  s.checked = 0;
  s.hasher = Hasher(s.digest.algorithm());
  return {};
}

void Ingest::discard() { state_->keep = false; }

Result<UniqueFd> Ingest::reopen() const {
  return sys::open_at(state_->core.ingest.get(), state_->name, O_RDONLY | O_NOFOLLOW);
}

Result<Ingest> BlobStore::begin_here(const Digest& digest, std::uint64_t size) {
  if (digest.empty()) return failure(Errc::InvalidArgument, "a blob without a digest");
  Pin held = pin(digest);
  {
    const std::scoped_lock lock(core_->mutex);
    if (!core_->arriving.insert(digest).second) {
      return failure(Errc::Busy, fmt::format("the blob {} is arriving already", digest.str()));
    }
  }
  // From here on the state's destructor takes it out of `arriving` again.
  const std::string name = fmt::format("{}-{}.part", to_string(digest.algorithm()), digest.hex());
  auto state = std::make_unique<Ingest::State>(core_, name, digest.algorithm());
  state->digest = digest;
  state->size_max = size;
  state->keep = true;
  state->pin = std::move(held);
  const int fd = ::openat(core_->ingest.get(), name.c_str(),
                          O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0) return write_failure("begin a blob", errno);
  state->fd = UniqueFd(fd);
  const off_t there = ::lseek(fd, 0, SEEK_END);
  if (there > 0 && static_cast<std::uint64_t>(there) <= size) {
    // What is there may have been written by a server that was killed in the middle: it counts only
    // as far as it is hashed now.
    TRY(hash_into(fd, static_cast<std::uint64_t>(there), state->hasher));
    state->offset = static_cast<std::uint64_t>(there);
  } else if (there != 0 && ::ftruncate(fd, 0) != 0) {
    return write_failure("begin a blob anew", errno);
  }
  TRY(core_->check_space(size - state->offset));
  return Ingest(std::move(state));
}

Result<Ingest> BlobStore::begin_new(std::uint64_t bytes_max, Algorithm algorithm) {
  for (int tries = 0; tries < 100; ++tries) {
    std::array<std::byte, 8> raw{};
    TRY(sys::random_bytes(raw));
    std::string name = "new-";
    for (const std::byte one : raw) name += fmt::format("{:02x}", std::to_integer<unsigned>(one));
    const int fd = ::openat(core_->ingest.get(), name.c_str(),
                            O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    const int sys_errno = errno;
    if (fd < 0 && sys_errno == EEXIST) continue;
    if (fd < 0) return write_failure("begin a blob", sys_errno);
    auto state = std::make_unique<Ingest::State>(core_, name, algorithm);
    state->fd = UniqueFd(fd);
    state->size_max = bytes_max;
    return Ingest(std::move(state));
  }
  return failure(Errc::Internal, "no free name for a new blob");
}

Result<Stored> BlobStore::commit_here(Ingest ingest) {
  Ingest::State& s = *ingest.state_;
  const Digest found = s.hasher.finish();
  if (!s.digest.empty()) {
    if (s.offset != s.size_max) {
      return failure(Errc::Protocol, fmt::format("the blob {} ended after {} of {} bytes",
                                                 s.digest.str(), s.offset, s.size_max));
    }
    if (found != s.digest) {
      s.keep = false;
      return failure(Errc::Protocol,
                     fmt::format("the blob {} is not what its digest says: it is {}",
                                 s.digest.str(), found.str()));
    }
  }
  Stored out{found, s.offset, UniqueFd(), pin(found)};
  if (::fchmod(s.fd.get(), 0400) != 0) return sys_failure("fchmod a blob", errno);
  if (::fsync(s.fd.get()) != 0) return write_failure("sync a blob", errno);
  // Opened before the rename, in a folder that only we write to: this is the file that was hashed.
  out.fd = TRY(ingest.reopen());
  const std::string name(found.hex());
  const int folder = core_->folder_of(found);
  if (::renameat(core_->ingest.get(), s.name.c_str(), folder, name.c_str()) != 0) {
    return write_failure("name a blob", errno);
  }
  s.keep = true;  // it has another name now
  if (::fsync(folder) != 0) return write_failure("sync the folder of blobs", errno);
  return out;
}

Result<Stored> BlobStore::put_here(std::string_view text, Algorithm algorithm) {
  Ingest ingest = TRY(begin_new(text.size(), algorithm));
  TRY(ingest.write(std::as_bytes(std::span(text))));
  return commit_here(std::move(ingest));
}

}  // namespace caisson::image
