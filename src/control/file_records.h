// control/file_records.h — images, snapshots and volumes as the store keeps them.
#pragma once

#include <boost/json/object.hpp>
#include <set>
#include <string>
#include <vector>

#include "control/file_state.h"

namespace caisson::control {

struct ImageRecord {
  std::string tenant;
  ImageView view;
  std::vector<std::string> stack;  // names of its layers in the launcher's store, topmost first
  std::set<std::string> blobs;     // digests that must stay while it does
  bool broken = false;             // a layer is missing

  [[nodiscard]] store::FileKey key() const {
    return {store::FileKind::Image, tenant, view.reference};
  }
};

// Processes that lie in the launcher's store, and all that a sandbox needs to go on with them. The
// record that it stands in is authenticated, and so its digest vouches for what lies there.
struct KeptMemory {
  std::string name;
  std::string digest;
  std::string runtime;
  std::uint64_t bytes = 0;
  // What the sandbox had written is not in the record's stack: it is in there, or still its own.
  bool files = false;
  std::string spec;  // of the sandbox: records.h
  std::string limits;

  friend bool operator==(const KeptMemory&, const KeptMemory&) = default;
};

struct SnapshotRecord {
  std::string id;
  std::string tenant;
  std::string name;
  std::string sandbox;
  std::string parent;
  std::string image;
  ImageDefaults defaults;  // of the image
  engine::LayerStack stack;
  std::size_t base_layers = 0;  // of the stack, at its lower end: the image's
  engine::SnapshotKind kind = engine::SnapshotKind::Stacked;
  bool making = false;  // written before the seal: nobody was told of it
  bool sealed = false;  // in memory alone: its row says so, and nobody was told of it yet
  bool durable = false;
  bool checkpoint = false;
  bool hidden = false;  // of a fork or a comparison: it goes when nobody refers to it
  bool broken = false;  // a layer is missing
  std::uint64_t bytes = 0;
  store::WallTime created = 0;
  std::string boot;  // of the host, while it is not durable
  std::map<std::string, std::string> labels;
  std::optional<KeptMemory> memory{};

  [[nodiscard]] store::FileKey key() const { return {store::FileKind::Snapshot, tenant, id}; }
};

struct VolumeRecord {
  std::string tenant;
  std::string name;
  std::uint64_t bytes_max = 0;
  store::WallTime created = 0;

  [[nodiscard]] store::FileKey key() const { return {store::FileKind::Volume, tenant, name}; }
};

[[nodiscard]] boost::json::object to_json(const ImageDefaults& defaults);
[[nodiscard]] Result<ImageDefaults> read_defaults(const boost::json::object& value);
[[nodiscard]] boost::json::object to_json(const engine::LayerStack& stack);
[[nodiscard]] Result<engine::LayerStack> read_stack(const boost::json::object& value);
[[nodiscard]] boost::json::object to_json(const VolumeUse& use);
[[nodiscard]] Result<VolumeUse> read_volume_use(const boost::json::object& value);

[[nodiscard]] boost::json::object to_json(const ImageRecord& record);
[[nodiscard]] boost::json::object to_json(const SnapshotRecord& record);
[[nodiscard]] boost::json::object to_json(const VolumeRecord& record);
[[nodiscard]] Result<ImageRecord> read_image(const store::FileKey& key, store::WallTime created,
                                             const boost::json::object& body);
[[nodiscard]] Result<SnapshotRecord> read_snapshot(const store::FileKey& key,
                                                   store::WallTime created,
                                                   const boost::json::object& body);
[[nodiscard]] Result<VolumeRecord> read_volume(const store::FileKey& key, store::WallTime created,
                                               const boost::json::object& body);

// What can be said of files that were being written at that moment.
[[nodiscard]] std::string consistency_of(engine::SnapshotKind kind);
[[nodiscard]] SnapshotView snapshot_view(const SnapshotRecord& record);

}  // namespace caisson::control
