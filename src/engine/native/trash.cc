#include "engine/native/trash.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "sys/file.h"

namespace caisson::engine::native {

Result<UniqueFd> lock_trash(int state_dir) {
  UniqueFd dir = TRY(sys::open_at(state_dir, "trash", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  while (::flock(dir.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return sys_failure("lock the trash", errno);
  }
  return dir;
}

Result<void> empty_trash(const std::string& state_dir) {
  const UniqueFd state = TRY(sys::open_at(AT_FDCWD, state_dir, O_RDONLY | O_DIRECTORY));
  const UniqueFd trash = TRY(lock_trash(state.get()));
  for (const std::string& name : TRY(sys::list_dir(trash.get(), kTrashEntriesMax)))
    TRY(sys::remove_tree(trash.get(), name));
  return {};
}

}  // namespace caisson::engine::native
