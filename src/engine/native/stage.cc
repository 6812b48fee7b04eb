#include "engine/native/stage.h"

#include <fcntl.h>
#include <sys/mount.h>

#include <cerrno>

#include "sys/file.h"
#include "sys/raw.h"

namespace caisson::engine::native {

Result<void> Stage::attach(int mount) {
  if (!needed_) return {};
  const UniqueFd folder = TRY(sys::open_at(AT_FDCWD, kFolder, O_PATH | O_DIRECTORY));
  if (sys::raw::attach_mount(mount, folder.get()) != 0)
    return sys_failure("attach a mount in the making", errno);
  ++depth_;
  return {};
}

void Stage::clear(std::size_t depth) noexcept {
  for (; depth_ > depth; --depth_) (void)::umount2(kFolder, MNT_DETACH);
}

}  // namespace caisson::engine::native
