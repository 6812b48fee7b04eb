// control/file_state.h — images, snapshots and volumes, as every door sees them.
//
// A *state* is a tree of files that nobody changes any more, or the one that a sandbox has right
// now: "sandbox:ID", "snapshot:ID" or "image:REFERENCE". Everything here belongs to one tenant;
// that of another is NotFound.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "engine/launch_request.h"
#include "engine/layers.h"
#include "store/store.h"

namespace caisson::control {

using boost::asio::awaitable;

inline constexpr std::size_t kSnapshotsMax = 10'000;   // of one tenant
inline constexpr std::size_t kImagesMax = 1'000;       // of one tenant
inline constexpr std::size_t kVolumesMax = 1'000;      // of one tenant
inline constexpr std::size_t kSandboxVolumesMax = 16;  // of one sandbox
inline constexpr std::size_t kCheckpointsKept = 32;    // of one sandbox with each_call
inline constexpr std::size_t kStackFlattenAt = 32;  // own layers of a sandbox; then they become one
inline constexpr std::size_t kDiffEntriesMax = 100'000;
inline constexpr std::uint64_t kCopyBytesMax = 512ULL << 20U;  // of a snapshot by copying
inline constexpr std::uint64_t kCopyFilesMax = 50'000;
inline constexpr std::uint64_t kPatchBytesMax = 64ULL << 20U;

// ------------------------------------------------------------------------------------ images

// What an image's configuration says, judged.
struct ImageDefaults {
  std::string user;  // as the image has it
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string workdir;                   // absolute; empty: the workspace
  std::vector<std::string> environment;  // NAME=value
  std::vector<std::string> entrypoint;
  std::vector<std::string> command;
  std::vector<std::string> ports;  // "80/tcp"
  std::map<std::string, std::string> labels;

  friend bool operator==(const ImageDefaults&, const ImageDefaults&) = default;
};

struct ImageView {
  std::string reference;            // canonical
  std::string digest;               // of the manifest
  std::string platform;             // "linux/amd64"
  std::vector<std::string> layers;  // diff ids, topmost last, as the image has them
  std::uint64_t packed_bytes = 0;   // of the blobs
  std::uint64_t bytes = 0;          // of the layers, unpacked
  store::WallTime created = 0;      // here
  std::string source;               // "pull", "import", "build"
  ImageDefaults defaults;
};

struct ImageProgress {
  std::string stage;  // "resolve", "download", "unpack"
  std::string layer;  // digest of its blob; empty: the image as a whole
  std::uint64_t done = 0;
  std::uint64_t total = 0;  // 0: not known
};

struct PullWish {
  std::string reference;
  std::optional<std::string> platform;
  std::string username;  // for this registry and this call only
  std::string password;
  bool refresh = true;  // false: what is here already will do
};

// Progress as it comes, then the image, once. Dropping it gives the pull up.
class PullStream {
 public:
  using Item = std::variant<ImageProgress, ImageView>;
  virtual ~PullStream() = default;
  virtual awaitable<Result<Item>> next() = 0;
};

struct ImportWish {
  std::string reference;
  std::optional<std::string> pick;  // of an archive with several images: the one of this name
};

// An archive on its way in: an OCI layout, a docker archive, or a root file system, as tar, plain
// or compressed. Nothing of it is seen before finish().
class ImageUpload {
 public:
  virtual ~ImageUpload() = default;
  virtual awaitable<Result<void>> write(std::span<const std::byte> bytes) = 0;
  virtual awaitable<Result<ImageView>> finish() = 0;
};

struct BuildWish {
  std::string reference;
  std::string snapshot;  // id
  std::optional<std::vector<std::string>> entrypoint;
  std::optional<std::vector<std::string>> command;
  std::optional<std::string> workdir;
  std::optional<std::string> user;
  std::map<std::string, std::string> labels;
};

struct GarbageView {
  std::uint64_t blobs = 0;
  std::uint64_t layers = 0;
  std::uint64_t bytes = 0;
};

// ------------------------------------------------------------------------------------ snapshots

struct SnapshotWish {
  std::string name;  // unique among the tenant's when not empty
  std::map<std::string, std::string> labels;
  bool memory = false;  // its processes, too, as they stand; Unsupported where the tier keeps none
};

// Of a snapshot that has processes.
struct MemoryView {
  std::uint64_t bytes = 0;
  std::string runtime;  // what must be there to run it
};

struct SnapshotView {
  std::string id;
  std::string name;
  std::string tenant;
  std::string sandbox;  // whose state it is
  std::string parent;   // the snapshot before it on the same files; empty: the image
  std::string image;
  engine::SnapshotKind kind = engine::SnapshotKind::Stacked;
  // What can be said of files that were being written at that moment.
  std::string consistency;
  bool durable = false;     // it outlives a power cut
  bool checkpoint = false;  // taken by the server before a call, and dropped by it
  std::uint64_t bytes = 0;
  std::size_t layers = 0;  // above the image
  store::WallTime created = 0;
  std::map<std::string, std::string> labels;
  std::optional<MemoryView> memory{};
};

struct ForkWish {
  std::string name;
  std::map<std::string, std::string> labels;
  std::optional<std::string> hostname;
  std::optional<bool> memory;  // its processes, too; Unsupported where the tier keeps none
};

struct UndoWish {
  std::optional<std::uint32_t> calls;   // back over the last so many tool calls; or
  std::optional<std::string> snapshot;  // back to this one, of this sandbox
  bool end_processes = false;
};

struct UndoView {
  std::string snapshot;     // where it stands now
  std::uint32_t calls = 0;  // how many were undone
  std::size_t left = 0;     // checkpoints that are still there
};

// ------------------------------------------------------------------------------------ states

enum class ChangeKind : std::uint8_t { Added, Modified, Removed, TypeChanged, Mode };
[[nodiscard]] std::string_view to_string(ChangeKind kind) noexcept;

struct Change {
  ChangeKind kind = ChangeKind::Modified;
  std::string path;  // absolute
  std::uint32_t mode = 0;
  std::uint64_t size = 0;
};

struct DiffWish {
  std::string from;  // a state
  std::string to;
  std::string path = "/";  // only what lies below
};

struct DiffView {
  std::vector<Change> changes;  // by path
  bool truncated = false;       // beyond kDiffEntriesMax
};

struct MergeWish {
  std::string from;  // a state that has an ancestor in common with the sandbox
  bool end_processes = false;
};

struct MergeView {
  std::string base;  // the snapshot or image that both come from
  std::vector<Change> applied;
  std::vector<std::string> conflicts;  // not empty: nothing was applied
};

// ------------------------------------------------------------------------------------ volumes

struct VolumeView {
  std::string name;
  std::string tenant;
  std::uint64_t bytes_max = 0;
  std::uint64_t bytes = 0;
  store::WallTime created = 0;
  std::vector<std::string> sandboxes;  // that have it now
};

struct VolumeUse {
  std::string name;
  std::string at;
  bool read_only = false;

  friend bool operator==(const VolumeUse&, const VolumeUse&) = default;
};

enum class Checkpoints : std::uint8_t { None, EachCall };

}  // namespace caisson::control
