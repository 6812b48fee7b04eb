#include "guest/init/below.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/init/sys.h"

namespace caisson::init {
namespace {

constexpr uint32_t kFolderMode = 0755;
constexpr size_t kNameMax = 255;

}  // namespace

void Below::open_up(uint32_t needed) {
  needed_ = needed;
  open_up_folder(root_, needed_);
}

// One name down; -errno when that is not possible.
int Below::step(int at, const char* name, bool create, bool& made) const {
  constexpr int kHow = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  if (needed_ != 0) open_up_folder(at, needed_);
  int next = openat(at, name, kHow);
  made = next < 0 && errno == ENOENT && create && mkdirat(at, name, kFolderMode) == 0;
  if (made) next = openat(at, name, kHow);
  if (next >= 0) return next;
  return errno == ENOTDIR ? -ELOOP : -errno;
}

int Below::open(const char* path, size_t size, bool create) {
  int at = root_;
  for (size_t begin = 0; begin < size;) {
    const void* slash = memchr(path + begin, '/', size - begin);
    const size_t end =
        slash != nullptr ? static_cast<size_t>(static_cast<const char*>(slash) - path) : size;
    char name[kNameMax + 1];
    const bool fits = end - begin <= kNameMax;
    if (fits) memcpy(name, path + begin, end - begin);
    name[fits ? end - begin : 0] = '\0';
    bool made = false;
    const int next = fits ? step(at, name, create, made) : -ENAMETOOLONG;
    leave(at);
    if (next < 0) return next;
    at = next;
    if (made && on_made_ != nullptr) on_made_(whom_, at, path, end);
    begin = end + 1;
  }
  if (needed_ != 0) open_up_folder(at, needed_);
  return at;
}

void Below::leave(int fd) const {
  if (fd != root_) close(fd);
}

int Below::enter(const char* path, size_t size, bool create) {
  if (size == kept_size_ && memcmp(kept_path_, path, size) == 0) return kept_;
  leave(kept_);
  kept_ = root_;
  kept_size_ = 0;
  const int fd = open(path, size, create);
  if (fd < 0) return fd;
  kept_ = fd;
  memcpy(kept_path_, path, size);
  kept_size_ = size;
  return kept_;
}

}  // namespace caisson::init
