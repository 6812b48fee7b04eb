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
#include "control/spool.h"
#include "control/state_seal.h"
#include "control/turns.h"
#include "control/volume_shelf.h"
#include "image/blob_store.h"

namespace caisson::control {

// Of one tenant: snapshots, images as they are unpacked, and what volumes may hold.
inline constexpr std::uint64_t kTenantStoreBytesMax = 64ULL << 30U;

inline constexpr std::size_t kSanitisesMax = 4;
inline constexpr std::size_t kPatchesMax = 4;

struct FileKeeping {
  explicit FileKeeping(const boost::asio::any_io_executor& executor)
      : works(executor),
        sanitising(executor, kSanitisesMax),
        patches(executor, kPatchesMax),
        looking(executor, 1),
        collecting(executor, 1) {}

  ImageLibrary images;
  SnapshotTree snapshots;
  VolumeShelf volumes;
  LayerWorks works;
  Turns sanitising;  // archives, apart from what images and snapshots need
  Turns patches;
  SpoolAccounts spools;
  std::optional<StateSeal> seal;
  std::string boot;  // id of this start of the host

  // The launcher makes its store when it is first asked about it, so nobody asks before there is a
  // need. From then on this is what it has.
  bool looked = false;
  // Some record could not be read, so nobody knows what it needs: nothing is dropped in this run.
  bool unsure = false;
  // Snapshots whose seal is under way.
  std::shared_ptr<std::set<std::string>> sealing = std::make_shared<std::set<std::string>>();
  Turns looking;
  std::set<std::string> layers;
  std::set<std::string> memories;

  // Layers of stacks whose successor could not be recorded; they stay for this run.
  std::vector<LayerWorks::Hold> on_record;

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
