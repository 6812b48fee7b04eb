// engine/native/pool.h — where layers, writable layers and volumes lie on disk, and what the file
// system below them can do.
//
// A btrfs is best: a folder can then be limited, copied and removed as a whole in a moment. The
// state directory's own is taken where its bytes are counted already; else one in a file, mounted
// in the launcher's mount namespace alone, whose space is taken from the host's disk at once, so
// that a full host never meets a half-written layer. Without btrfs there are plain folders, and
// what needs limits or live snapshots is refused.
//
// Names are judged before they come here. Everything inside belongs to the store range.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/layers.h"
#include "sys/process.h"

namespace caisson::engine::native {

inline constexpr std::size_t kPoolEntriesMax = 200'000;

class Pool {
 public:
  struct Options {
    std::uint64_t bytes = 0;  // of a new file; 0: a quarter of what is free, 32 GiB at most
    int home_mounts = -1;     // where the host's devices and programs are
    int own_mounts = -1;
  };
  static constexpr const char* kLayers = "layers/";
  static constexpr const char* kUppers = "sandboxes/";
  static constexpr const char* kVolumes = "volumes/";
  static constexpr const char* kMaking = "making/";
  static constexpr const char* kMemories = "memory/";
  // Writable layers of sandboxes that are about to get another one. What a launcher that died left
  // there goes back to its place: nobody was told of the change.
  static constexpr const char* kAside = "aside/";
  static constexpr const char* kEmpty = "empty";

  // Below the folder `state`. What was in the making when a launcher died is gone afterwards.
  [[nodiscard]] static Result<Pool> open(int state, const Options& options);

  [[nodiscard]] int root() const noexcept { return root_.get(); }
  [[nodiscard]] Result<PoolFacts> facts() const;
  [[nodiscard]] bool limits() const noexcept { return limits_; }

  // An empty folder of at most `bytes` (0: any number), which must be possible. It is complete
  // before it has its name.
  [[nodiscard]] Result<void> make(const std::string& path, std::uint64_t bytes);
  // The same without a name: rename() gives it one.
  [[nodiscard]] Result<std::string> make_ready(std::uint64_t bytes);
  [[nodiscard]] Result<void> limit(const std::string& path, std::uint64_t bytes);
  [[nodiscard]] Result<std::uint64_t> bytes(const std::string& path) const;
  [[nodiscard]] bool has(const std::string& path) const noexcept;
  [[nodiscard]] Result<void> rename(const std::string& from, const std::string& to);
  // `to` shares everything with `from`; only where live_snapshots.
  [[nodiscard]] Result<void> copy(const std::string& from, const std::string& to);
  // Out of sight at once; the work is done in the background.
  [[nodiscard]] Result<void> remove(const std::string& path);
  // The same for who is in a hurry: the work waits for idle time.
  [[nodiscard]] Result<void> discard(const std::string& path);
  [[nodiscard]] Result<std::vector<StoreEntry>> list() const;
  // In idle time: ends removals, begins those that had to wait.
  void tidy();
  // In idle time: one more empty folder ahead of who will ask for it. False when there are enough,
  // or nobody has asked yet.
  [[nodiscard]] bool stock();

 private:
  [[nodiscard]] static Result<void> mount_file(int state, const Options& options);
  [[nodiscard]] Result<std::string> make_folder(const std::string& below);
  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] Result<void> empty(const std::string& folder);
  [[nodiscard]] Result<void> put_back();
  [[nodiscard]] Result<void> start_removal(const std::string& path);
  [[nodiscard]] Result<void> start_errand(const std::function<bool()>& errand);
  void reap();

  UniqueFd root_;
  std::string kind_;
  std::string why_;
  bool limits_ = false;
  bool asked_ = false;              // for an empty folder, since the start
  std::vector<std::string> ready_;  // empty folders ahead, below "ready"
  std::vector<sys::Child> removals_;
  bool removed_ = false;  // since the file system was last asked to give space back
  bool backlog_ = false;  // something lies in the trash for which there was no process
};

}  // namespace caisson::engine::native
