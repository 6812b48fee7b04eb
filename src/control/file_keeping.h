// control/file_keeping.h — what a fleet holds of file state: the records, the works, the blobs, and
// what it knows of the launcher's store.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "control/image_library.h"
#include "control/image_options.h"
#include "control/layer_works.h"
#include "control/snapshot_tree.h"
#include "control/state_seal.h"
#include "control/turns.h"
#include "control/volume_shelf.h"
#include "image/blob_store.h"

namespace caisson::control {

struct FileKeeping {
  explicit FileKeeping(const boost::asio::any_io_executor& executor)
      : works(executor), looking(executor, 1), collecting(executor, 1) {}

  ImageLibrary images;
  SnapshotTree snapshots;
  VolumeShelf volumes;
  LayerWorks works;
  std::optional<StateSeal> seal;
  std::string boot;  // id of this start of the host

  // The launcher makes its store when it is first asked about it, so nobody asks before there is a
  // need. From then on this is what it has.
  bool looked = false;
  Turns looking;
  std::set<std::string> layers;

  store::WallTime latest = 0;  // of the snapshots: no two are of one moment
  Turns collecting;            // garbage, one at a time
  bool tidying = false;        // layers that nobody refers to are being dropped
  bool tidy_again = false;
  bool syncing = false;  // snapshots are being made durable

  boost::asio::thread_pool disk{1};  // uploads wait for the disk there
  std::unique_ptr<image::BlobStore> blobs;
  std::shared_ptr<ImageSource> source;  // goes before the blobs
};

}  // namespace caisson::control
