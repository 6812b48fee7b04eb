// image/ingest.h — a blob on its way in: the inside of Ingest.
#pragma once

#include <string>

#include "image/blob_store_core.h"

namespace caisson::image {

struct Ingest::State {
  State(std::shared_ptr<BlobStore::Core> in, std::string as, Algorithm algorithm)
      : owner(std::move(in)), core(*owner), name(std::move(as)), hasher(algorithm) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  // A coroutine that holds us may be destroyed after the store, with the io_context.
  std::shared_ptr<BlobStore::Core> owner;
  BlobStore::Core& core;
  std::string name;  // below ingest/
  UniqueFd fd;
  Digest digest;  // empty: not known yet
  std::uint64_t size_max = 0;
  std::uint64_t offset = 0;
  std::uint64_t checked = 0;  // up to here there was space
  Hasher hasher;
  bool keep = false;  // as a partial download
  Pin pin;
};

}  // namespace caisson::image
