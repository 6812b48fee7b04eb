// image/blob_store_core.h — the folders, the names and who holds what: the inside of BlobStore.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "image/blob_store.h"

namespace caisson::image {

struct BlobStore::Core {
  Core(UniqueFd root, BlobStoreOptions with)
      : root(std::move(root)), options(with), pool(with.threads) {}

  UniqueFd root;
  UniqueFd ingest;
  UniqueFd sha256;
  UniqueFd sha512;
  BlobStoreOptions options;

  mutable std::mutex mutex;
  std::map<Digest, std::weak_ptr<const void>> pins;  // guarded by mutex
  std::set<Digest> arriving;                         // named ingests; guarded by mutex

  // Last, so that its threads end first.
  boost::asio::thread_pool pool;

  [[nodiscard]] int folder_of(const Digest& digest) const noexcept {
    return digest.algorithm() == Algorithm::Sha512 ? sha512.get() : sha256.get();
  }
  // Both with the mutex held.
  [[nodiscard]] std::shared_ptr<const void> token_of(const Digest& digest);
  [[nodiscard]] bool is_held(const Digest& digest) const;
  // StoreFull when `more` bytes would leave less than the reserve.
  [[nodiscard]] Result<void> check_space(std::uint64_t more) const;
};

// A failed write: a full disk, quota or file limit is StoreFull, whoever says it.
[[nodiscard]] std::unexpected<Error> write_failure(std::string_view what, int sys_errno);

// Hashes the first `bytes` of a regular file; fewer is an error.
[[nodiscard]] Result<void> hash_into(int fd, std::uint64_t bytes, Hasher& hasher);

}  // namespace caisson::image
