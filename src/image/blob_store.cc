#include "image/blob_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "base/on_worker.h"
#include "image/blob_store_core.h"
#include "sys/file.h"

namespace caisson::image {

namespace {

constexpr std::string_view kPartSuffix = ".part";

std::int64_t age_seconds(const struct stat& facts) {
  return static_cast<std::int64_t>(std::time(nullptr)) - facts.st_mtim.tv_sec;
}

// What no ingest can go on with: files without a digest, and downloads that nobody came back for.
Result<void> clean_ingest(int folder) {
  const std::vector<std::string> names = TRY(sys::list_dir(folder, kBlobsMax));
  for (const std::string& name : names) {
    struct stat facts{};
    if (::fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const bool fresh = age_seconds(facts) <= duration_cast<seconds>(kPartAgeMax).count();
    if (name.ends_with(kPartSuffix) && S_ISREG(facts.st_mode) && fresh) continue;
    if (::unlinkat(folder, name.c_str(), 0) != 0) return sys_failure("clean ingest/", errno);
  }
  return {};
}

Result<UniqueFd> make_and_open(int root, const std::string& path) {
  TRY(sys::make_dir(root, path, 0700, sys::Existing::Accept));
  return sys::open_at(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

// Calls `take` for each blob of one algorithm: its digest and what stat says.
template <class Take>
Result<void> each_blob(int folder, Algorithm algorithm, Take take) {
  const std::vector<std::string> names = TRY(sys::list_dir(folder, kBlobsMax));
  for (const std::string& name : names) {
    const auto digest = Digest::parse(fmt::format("{}:{}", to_string(algorithm), name));
    struct stat facts{};
    if (!digest || ::fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(facts.st_mode)) take(*digest, facts);
  }
  return {};
}

}  // namespace

std::unexpected<Error> write_failure(std::string_view what, int sys_errno) {
  if (sys_errno == ENOSPC || sys_errno == EDQUOT || sys_errno == EFBIG) {
    Error error{Errc::StoreFull, fmt::format("{}: {}", what, errno_text(sys_errno)), sys_errno};
    return std::unexpected(std::move(error));
  }
  return sys_failure(what, sys_errno);
}

Result<void> hash_into(int fd, std::uint64_t bytes, Hasher& hasher) {
  std::vector<std::byte> buffer(kCopyBytes);
  (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  for (std::uint64_t at = 0; at < bytes;) {
    const std::size_t want =
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), bytes - at));
    const ssize_t got = ::pread(fd, buffer.data(), want, static_cast<off_t>(at));
    const int sys_errno = errno;
    if (got < 0 && sys_errno == EINTR) continue;
    if (got < 0) return sys_failure("read a blob", sys_errno);
    if (got == 0) return failure(Errc::Internal, "a blob became shorter while it was read");
    hasher.update(std::span(buffer).first(static_cast<std::size_t>(got)));
    at += static_cast<std::uint64_t>(got);
  }
  return {};
}

std::shared_ptr<const void> BlobStore::Core::token_of(const Digest& digest) {
  std::weak_ptr<const void>& slot = pins[digest];
  if (auto token = slot.lock()) return token;
  std::shared_ptr<const void> token = std::make_shared<int>(0);
  slot = token;
  // Tokens that nobody holds go when the map has doubled: the cost is spread over the pins.
  if (pins.size() > 1024 && (pins.size() & (pins.size() - 1)) == 0) {
    std::erase_if(pins, [](const auto& entry) { return entry.second.expired(); });
  }
  return token;
}

bool BlobStore::Core::is_held(const Digest& digest) const {
  const auto found = pins.find(digest);
  return arriving.contains(digest) || (found != pins.end() && !found->second.expired());
}

Result<void> BlobStore::Core::check_space(std::uint64_t more) const {
  struct statvfs facts{};
  if (::fstatvfs(root.get(), &facts) != 0) return sys_failure("look at the free space", errno);
  const std::uint64_t free = static_cast<std::uint64_t>(facts.f_bavail) * facts.f_frsize;
  if (free >= options.free_bytes_min && free - options.free_bytes_min >= more) return {};
  return failure(Errc::StoreFull,
                 fmt::format("the disk of the image store has {} bytes left; {} more and a reserve "
                             "of {} do not fit",
                             free, more, options.free_bytes_min));
}

BlobStore::BlobStore(std::shared_ptr<Core> core) : core_(std::move(core)) {}

BlobStore::~BlobStore() { core_->pool.join(); }

Result<std::unique_ptr<BlobStore>> BlobStore::open(const std::string& path,
                                                   BlobStoreOptions options) {
  TRY_IN("image store", sys::make_dir(AT_FDCWD, path, 0700, sys::Existing::Accept));
  UniqueFd root = TRY_IN("image store", sys::open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY));
  auto core = std::make_shared<Core>(std::move(root), options);
  const int fd = core->root.get();
  (void)TRY_IN("image store", make_and_open(fd, "blobs"));
  core->sha256 = TRY_IN("image store", make_and_open(fd, "blobs/sha256"));
  core->sha512 = TRY_IN("image store", make_and_open(fd, "blobs/sha512"));
  core->ingest = TRY_IN("image store", make_and_open(fd, "ingest"));
  TRY_IN("image store", clean_ingest(core->ingest.get()));
  return std::unique_ptr<BlobStore>(new BlobStore(std::move(core)));
}

std::optional<std::uint64_t> BlobStore::size_of(const Digest& digest) const {
  if (digest.empty()) return std::nullopt;
  struct stat facts{};
  const std::string name(digest.hex());
  const int folder = core_->folder_of(digest);
  if (::fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  if (!S_ISREG(facts.st_mode)) return std::nullopt;
  return static_cast<std::uint64_t>(facts.st_size);
}

Result<std::vector<BlobInfo>> BlobStore::list() const {
  std::vector<BlobInfo> out;
  const auto take = [&](const Digest& digest, const struct stat& facts) {
    out.push_back({digest, static_cast<std::uint64_t>(facts.st_size)});
  };
  TRY(each_blob(core_->sha256.get(), Algorithm::Sha256, take));
  TRY(each_blob(core_->sha512.get(), Algorithm::Sha512, take));
  std::ranges::sort(out, {}, &BlobInfo::digest);
  return out;
}

Pin BlobStore::pin(const Digest& digest) {
  const std::scoped_lock lock(core_->mutex);
  return Pin(core_->token_of(digest));
}

Result<UniqueFd> BlobStore::open_verified_here(const Digest& digest) {
  if (digest.empty()) return failure(Errc::InvalidArgument, "a blob without a digest");
  const std::string name(digest.hex());
  const int folder = core_->folder_of(digest);
  UniqueFd fd(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && errno == ENOENT) {
    return failure(Errc::NotFound, fmt::format("the blob {} is not in the store", digest.str()));
  }
  if (!fd) return sys_failure("open a blob", errno);
  struct stat facts{};
  if (::fstat(fd.get(), &facts) != 0) return sys_failure("look at a blob", errno);
  Hasher hasher(digest.algorithm());
  if (S_ISREG(facts.st_mode)) {
    TRY(hash_into(fd.get(), static_cast<std::uint64_t>(facts.st_size), hasher));
    if (hasher.finish() == digest) return fd;
  }
  (void)::unlinkat(folder, name.c_str(), 0);
  return failure(Errc::NotFound,
                 fmt::format("the blob {} was damaged on disk and is removed; pull its image again",
                             digest.str()));
}

awaitable<Result<UniqueFd>> BlobStore::open_verified(Digest digest) {
  auto work = [this, digest] { return open_verified_here(digest); };
  co_return co_await on_worker(core_->pool, std::move(work));
}

awaitable<Result<std::string>> BlobStore::read_verified(Digest digest, std::size_t bytes_max) {
  auto work = [this, digest, bytes_max]() -> Result<std::string> {
    const auto size = size_of(digest);
    if (size && *size > bytes_max) {
      return failure(Errc::TooLarge,
                     fmt::format("the blob {} has {} bytes, and at most {} are read", digest.str(),
                                 *size, bytes_max));
    }
    const UniqueFd fd = TRY(open_verified_here(digest));
    return sys::read_again(fd.get(), bytes_max);
  };
  co_return co_await on_worker(core_->pool, std::move(work));
}

awaitable<Result<Ingest>> BlobStore::begin(Digest digest, std::uint64_t size) {
  auto work = [this, digest, size] { return begin_here(digest, size); };
  co_return co_await on_worker(core_->pool, std::move(work));
}

awaitable<Result<Stored>> BlobStore::commit(Ingest ingest) {
  auto work = [this, ingest = std::move(ingest)]() mutable {
    return commit_here(std::move(ingest));
  };
  co_return co_await on_worker(core_->pool, std::move(work));
}

awaitable<Result<Stored>> BlobStore::put(std::string text, Algorithm algorithm) {
  auto work = [this, text = std::move(text), algorithm] { return put_here(text, algorithm); };
  co_return co_await on_worker(core_->pool, std::move(work));
}

Result<void> BlobStore::remove(const Digest& digest) {
  const std::scoped_lock lock(core_->mutex);
  if (core_->is_held(digest)) {
    return failure(Errc::Busy, fmt::format("the blob {} is in use", digest.str()));
  }
  const std::string name(digest.hex());
  if (digest.empty() || ::unlinkat(core_->folder_of(digest), name.c_str(), 0) != 0) {
    if (digest.empty() || errno == ENOENT) {
      return failure(Errc::NotFound, fmt::format("the blob {} is not in the store", digest.str()));
    }
    return sys_failure("remove a blob", errno);
  }
  return {};
}

awaitable<Result<BlobStore::Removed>> BlobStore::remove_unreferenced(std::set<Digest> referenced,
                                                                     seconds grace) {
  auto work = [this, referenced = std::move(referenced), grace]() -> Result<Removed> {
    Removed out;
    const auto look = [&](const Digest& digest, const struct stat& facts) {
      if (referenced.contains(digest) || age_seconds(facts) < grace.count()) return;
      if (!remove(digest)) return;
      ++out.blobs;
      out.bytes += static_cast<std::uint64_t>(facts.st_size);
    };
    TRY(each_blob(core_->sha256.get(), Algorithm::Sha256, look));
    TRY(each_blob(core_->sha512.get(), Algorithm::Sha512, look));
    return out;
  };
  co_return co_await on_worker(core_->pool, std::move(work));
}

}  // namespace caisson::image
