// image/blob_store.h — content by digest, in a folder that only the server writes to.
//
//   blobs/<algorithm>/<hex>      whole, synced and verified when it got its name; mode 0400
//   ingest/<algorithm>-<hex>.part   a download that was cut off; its bytes are hashed again on
//   resume ingest/new-<random>          what has no digest yet; removed at open()
//
// A blob becomes visible by one rename, after its size, digest and fsync. It is hashed again before
// use, and the descriptor that was hashed is the one that is handed out. A full disk is StoreFull.
// Every function may be called from any thread; those that are awaitable work on the store's own
// threads and return on the caller's executor. The io_context must outlive the store.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "image/digest.h"

namespace caisson::image {

using boost::asio::awaitable;

inline constexpr std::size_t kBlobsMax = 1UL << 20;
inline constexpr std::size_t kCopyBytes = 128UL * 1024;   // one step of hashing and copying
inline constexpr std::chrono::hours kPartAgeMax{24 * 7};  // a partial download that nobody resumed

struct BlobInfo {
  Digest digest;
  std::uint64_t size = 0;
};

// While one of these lives, its blob is not removed. Copies count.
class Pin {
 public:
  Pin() = default;

 private:
  friend class BlobStore;
  explicit Pin(std::shared_ptr<const void> token) : token_(std::move(token)) {}
  std::shared_ptr<const void> token_;
};

// A blob on its way in. Dropped without commit(): a named one stays as a partial download, one
// without a name is removed.
class Ingest {
 public:
  Ingest(Ingest&&) noexcept;
  Ingest& operator=(Ingest&&) noexcept;
  ~Ingest();

  // Bytes that are there, from an earlier attempt too.
  [[nodiscard]] std::uint64_t offset() const noexcept;
  // TooLarge beyond the announced size, StoreFull when the disk is.
  [[nodiscard]] Result<void> write(std::span<const std::byte> bytes);
  // Forgets everything that was written: the peer starts from the first byte again.
  [[nodiscard]] Result<void> restart();
  // Removes it instead of keeping it for a resume.
  void discard();
  // A second, read-only descriptor of what is written so far.
  [[nodiscard]] Result<UniqueFd> reopen() const;

  struct State;

 private:
  friend class BlobStore;
  explicit Ingest(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// What an ingest became: the descriptor is read-only, of the file whose bytes were hashed.
struct Stored {
  Digest digest;
  std::uint64_t size = 0;
  UniqueFd fd;
  Pin pin;
};

struct BlobStoreOptions {
  std::uint64_t free_bytes_min = 64ULL * 1024 * 1024;  // of the disk: below it, StoreFull
  std::size_t threads = 4;  // an import holds one for as long as it takes
};

class BlobStore {
 public:
  // Makes the folder if it is missing, and removes what a crash left behind.
  [[nodiscard]] static Result<std::unique_ptr<BlobStore>> open(const std::string& path,
                                                               BlobStoreOptions options = {});
  ~BlobStore();
  BlobStore(const BlobStore&) = delete;
  BlobStore& operator=(const BlobStore&) = delete;

  // Its size, or nothing when it is not there. Looks at the folder only.
  [[nodiscard]] std::optional<std::uint64_t> size_of(const Digest& digest) const;
  [[nodiscard]] Result<std::vector<BlobInfo>> list() const;
  [[nodiscard]] Pin pin(const Digest& digest);

  // Hashes the file and returns that descriptor, at offset 0. A file that is not what its name says
  // is removed, and the answer is NotFound: it can be pulled again.
  awaitable<Result<UniqueFd>> open_verified(Digest digest);
  // The whole content of a small blob.
  awaitable<Result<std::string>> read_verified(Digest digest, std::size_t bytes_max);

  // Goes on where an earlier attempt ended, unless that has more bytes than `size`. One at a time
  // for each digest: a second one is Busy.
  awaitable<Result<Ingest>> begin(Digest digest, std::uint64_t size);
  // Of content whose digest is not known yet; at most `bytes_max`.
  [[nodiscard]] Result<Ingest> begin_new(std::uint64_t bytes_max,
                                         Algorithm algorithm = Algorithm::Sha256);
  // Size, digest, fsync, rename. A named ingest with the wrong content is removed: Protocol.
  awaitable<Result<Stored>> commit(Ingest ingest);
  awaitable<Result<Stored>> put(std::string text, Algorithm algorithm = Algorithm::Sha256);

  // The same, for code that is on a thread of its own already.
  [[nodiscard]] Result<UniqueFd> open_verified_here(const Digest& digest);
  [[nodiscard]] Result<Ingest> begin_here(const Digest& digest, std::uint64_t size);
  [[nodiscard]] Result<Stored> commit_here(Ingest ingest);
  [[nodiscard]] Result<Stored> put_here(std::string_view text,
                                        Algorithm algorithm = Algorithm::Sha256);

  // Busy while it is pinned; NotFound when it is not there.
  [[nodiscard]] Result<void> remove(const Digest& digest);
  struct Removed {
    std::uint64_t blobs = 0;
    std::uint64_t bytes = 0;
  };
  // Removes what is not in `referenced`, is not pinned and is older than `grace`.
  awaitable<Result<Removed>> remove_unreferenced(std::set<Digest> referenced, seconds grace);

  struct Core;
  // For this room: work that waits for the disk.
  [[nodiscard]] Core& core() noexcept { return *core_; }

 private:
  explicit BlobStore(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace caisson::image
