// engine/microvm/images.h — roots as block images: what a stack of layers shows, in one read-only
// file system that any number of machines read. Made once for each stack by mkfs.erofs in a jail,
// with the slot's own ids, so that an owner of the store is the same owner inside. The `host` image
// has a copy of the host's system folders, for each state of the host.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/launch_request.h"
#include "engine/native/rootfs.h"
#include "sys/process.h"

namespace caisson::engine::microvm {

inline constexpr std::size_t kImagesMax = 32;  // kept; the one that was used longest ago goes first
inline constexpr std::uint64_t kImageBytesMax = 64ULL << 30U;
inline constexpr std::size_t kImagesMakingMax = 4;

// Wait: until it is made, however long that takes. Ask: Busy while it is being made.
enum class Patience : std::uint8_t { Wait, Ask };

class ImageShelf {
 public:
  // `folder` is the folder "vm" of the state directory.
  [[nodiscard]] static Result<ImageShelf> open(int folder);

  // What `stack` is called here: the same name, the same bytes.
  // `skeleton` and `seam` are what native::StoreSources calls so.
  [[nodiscard]] static std::string name_of(const LayerStack& stack, const std::string& skeleton,
                                           const std::string& seam);
  // One that was made before, and is kept still.
  [[nodiscard]] Result<UniqueFd> find(const std::string& name) const;
  // The image, read-only. Where there is none, it is made with the slot's ids.
  [[nodiscard]] Result<UniqueFd> image(const LayerStack& stack, native::Slot& slot,
                                       const native::RootfsSources& sources, int null,
                                       Patience patience);

 private:
  struct Making {
    sys::Child child;
    std::string file;
  };
  [[nodiscard]] Result<void> begin(const std::string& name, const LayerStack& stack,
                                   native::Slot& slot, const native::RootfsSources& sources,
                                   int null);
  [[nodiscard]] Result<bool> finish(const std::string& name, Patience patience);
  [[nodiscard]] Result<void> make_room() const;

  UniqueFd folder_;
  std::map<std::string, Making> making_;
};

}  // namespace caisson::engine::microvm
