// image/blob_fetch.h — one blob into the store, once, however many pulls want it at a time. The
// first one fetches, the others wait; if it fails, the next of them tries.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>

#include "image/blob_store.h"
#include "image/registry.h"

namespace caisson::image {

struct BlobRequest {
  Reference reference;
  Descriptor descriptor;
  Credentials credentials;
  std::function<void(std::uint64_t done)> on_bytes;  // may be empty
};

struct FetchedBlob {
  UniqueFd fd;  // empty when it was there already
  Pin pin;
};

class BlobFetch {
 public:
  BlobFetch(boost::asio::any_io_executor executor, BlobStore& store, Registry& registry)
      : executor_(std::move(executor)), store_(store), registry_(registry) {}

  awaitable<Result<FetchedBlob>> fetch(BlobRequest request);

 private:
  awaitable<Result<FetchedBlob>> lead(BlobRequest request);
  awaitable<Result<Stored>> download(BlobRequest request, bool& resumed);

  boost::asio::any_io_executor executor_;
  BlobStore& store_;
  Registry& registry_;
  std::map<Digest, std::shared_ptr<boost::asio::steady_timer>> flights_;  // cancelled at the end
};

}  // namespace caisson::image
