// image/puller.h — a reference becomes an image in the store. Start at pull().
// A tag is resolved once; from then on everything goes by digest. Layers come in parallel, each
// blob once however many pulls want it, and a layer is handed on as soon as it is whole.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "image/image.h"
#include "image/registry.h"

namespace caisson::image {

inline constexpr std::size_t kParallelLayersMax = 3;  // of one pull
inline constexpr milliseconds kProgressInterval{100};

enum class ProgressKind : std::uint8_t {
  Resolved,  // the manifest is known: `layers` and `total` are set
  Bytes,     // of one layer, at most every kProgressInterval
  Cached,    // this layer's blob was there already
  Done,      // this layer's blob is whole and verified
};

struct Progress {
  ProgressKind kind = ProgressKind::Bytes;
  std::size_t layer = 0;   // which, from 0
  std::size_t layers = 0;  // of how many
  Digest digest;           // of the layer's blob, or of the manifest
  std::uint64_t done = 0;
  std::uint64_t total = 0;
};

// One layer whose blob is verified. `fd` is read-only and at offset 0; it is empty when the blob
// was in the store already: open_verified() it if the layer is needed.
struct LayerReady {
  std::size_t index = 0;
  std::size_t count = 0;
  Layer layer;
  UniqueFd fd;
};
using OnLayer = std::function<awaitable<Result<void>>(LayerReady ready)>;

struct PullRequest {
  Reference reference;
  Platform platform = host_platform();
  Credentials credentials;
  std::function<void(const Progress&)> progress;  // may be empty
  OnLayer on_layer;                               // may be empty; an error ends the pull
};

class Puller {
 public:
  // `store` outlives the puller, and the puller every pull().
  Puller(boost::asio::any_io_executor executor, BlobStore& store, RegistryOptions options);
  ~Puller();
  Puller(const Puller&) = delete;
  Puller& operator=(const Puller&) = delete;

  // NotFound: no such image or platform. Denied: the registry or the judge says no.
  // Unauthenticated: the registry wants credentials. Protocol: the registry lied. StoreFull: the
  // disk is full. TimedOut: it stalled more often than it may. Gone: cancelled, or it went away.
  awaitable<Result<PulledImage>> pull(PullRequest request);

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace caisson::image
