// engine/layers.h — file state in the launcher's store: what can be asked of it.
//
// A sandbox's root is a stack: its own writable layer on top, sealed layers below, each shared by
// all who need it. A snapshot is one more sealed layer and the list of those below it; a fork is a
// sandbox on such a list; undo is another list under the same sandbox. None of it copies a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace caisson::engine {

// How a snapshot was taken, and so what it cost.
enum class SnapshotKind : std::uint8_t {
  Stacked,  // nothing ran: the writable layer itself became the sealed one
  Cow,      // processes ran, and stood still for a moment: the file system shares every block
  Copied,   // every file was copied, while the processes stood still
};
[[nodiscard]] constexpr std::string_view to_string(SnapshotKind kind) noexcept {
  switch (kind) {
    case SnapshotKind::Stacked:
      return "stacked";
    case SnapshotKind::Cow:
      return "cow";
    case SnapshotKind::Copied:
      return "copied";
  }
  return "unknown";
}

struct Sealed {
  SnapshotKind kind = SnapshotKind::Stacked;
  std::uint64_t bytes = 0;  // that the new layer holds by itself, as far as it is known
};

// The memory of a sandbox's processes as it lies in the store, under a name: see
// engine/carried_tier.h for who writes it.
struct SavedMemory {
  std::uint64_t bytes = 0;
  std::string digest;   // of all its files
  std::string runtime;  // what can make it run again: told again before it does
  bool files = false;   // what the sandbox has written is in it, too

  friend bool operator==(const SavedMemory&, const SavedMemory&) = default;
};

struct StoreEntry {
  enum class Kind : std::uint8_t { Layer, Upper, Volume, Memory };
  Kind kind = Kind::Layer;
  std::string name;         // of an Upper: the sandbox's id
  std::uint64_t bytes = 0;  // 0 where nobody counts

  friend bool operator==(const StoreEntry&, const StoreEntry&) = default;
};

// What the store can do on this host.
struct PoolFacts {
  std::string kind;     // "btrfs", "btrfs in a file", "folder"
  bool limits = false;  // bytes of a layer can be limited: Storage::Disk and volumes need it
  bool live_snapshots = false;
  std::uint64_t bytes = 0;  // in all
  std::uint64_t free_bytes = 0;
  std::string why;  // of "folder": what is missing for more

  friend bool operator==(const PoolFacts&, const PoolFacts&) = default;
};

}  // namespace caisson::engine
