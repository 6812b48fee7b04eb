// engine/native/head_start.h — what a single run needs whatever its plan will be, made by a second
// thread while the first one still looks at the host and plans.
//
// The state directory and a slot in it come first, because control groups belong to the slot's ids;
// then the template of /dev; last, because they are needed last and take longest, a network and an
// empty mount namespace, which the thread makes for itself.
// It stays until the object goes: namespaces in the making end with the thread that began them. A
// head start that fails is no failure of the run: everything is made again in the ordinary way, and
// the reason appears there.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/native/child.h"
#include "engine/native/slots.h"
#include "engine/native/supply.h"

namespace caisson::engine::native {

// What every sandbox of the host image shares.
struct HostImage {
  std::string skeleton;  // below the state directory
  std::vector<std::string> system_folders;
  UniqueFd device_folder;
  UniqueFd init;
  UniqueFd null;
  std::vector<ChildMask> masks;  // those parts of /proc that this kernel has
};
// `devices`: a folder that is made already, or none.
[[nodiscard]] Result<HostImage> make_host_image(int state, bool privileged, UniqueFd devices);

// The state directory and its folders, made where they are missing.
[[nodiscard]] Result<UniqueFd> open_state_dir(const std::string& path, bool privileged);

class HeadStart {
 public:
  struct Place {
    UniqueFd state;
    SlotTable table;
    ReservedSlot slot;
  };

  // Only for root. `owner` of the folder that will be shown, as far as one can guess it now.
  [[nodiscard]] static std::unique_ptr<HeadStart> begin(std::string state_dir,
                                                        std::optional<FolderOwner> owner);
  HeadStart(const HeadStart&) = delete;
  HeadStart& operator=(const HeadStart&) = delete;
  ~HeadStart();

  // Each once; they wait.
  [[nodiscard]] Result<Place> place();
  [[nodiscard]] Result<UniqueFd> devices();
  [[nodiscard]] Result<sys::Surroundings> surroundings();
  // Everything is taken, and the slot finished: the thread may end, while we go on.
  void release() noexcept;

 private:
  struct Work;
  HeadStart();
  std::unique_ptr<Work> work_;
};

}  // namespace caisson::engine::native
