#include "guest/init/walker.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "guest/init/sys.h"

namespace caisson::init {
namespace {

// struct linux_dirent64: inode, offset, record size, type, name.
constexpr long kRecordSizeAt = 16;
constexpr long kNameAt = 19;

constexpr uint32_t kReadNeeds = S_IRUSR | S_IXUSR;

bool is_dot(const char* name) {
  return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

}  // namespace

bool Walker::open(const char* path, bool open_up) {
  Level& level = levels_[0];
  open_up_ = open_up;
  if (open_up) {
    int fd = ::open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) open_up_folder(fd, kReadNeeds);
    close_fd(fd);
  }
  level.fd = ::open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
  if (level.fd < 0) return false;
  if (on_proc(level.fd)) {
    close_fd(level.fd);
    errno = EACCES;
    return false;
  }
  level.used = level.at = 0;
  level.path_size = 0;
  depth_ = 0;
  path_[0] = '\0';
  return true;
}

// Before it is told: what is told is how it stays.
void Walker::open_up_entry(int folder) {
  if (!S_ISDIR(info_.st_mode) || (info_.st_mode & kReadNeeds) == kReadNeeds) return;
  int fd = openat(folder, name_, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  open_up_folder(fd, kReadNeeds);
  struct stat info{};
  if (fstat(fd, &info) == 0) info_ = info;
  close_fd(fd);
}

// True when there are records to look at.
bool Walker::fill(Level& level) {
  if (level.at < level.used) return true;
  level.used = read_folder(level.fd, level.buffer, kBufferBytes);
  level.at = 0;
  if (level.used < 0) error_ = static_cast<int>(-level.used);
  return level.used > 0;
}

bool Walker::set_path(const Level& level, const char* name) {
  const size_t size = strlen(name);
  size_t at = level.path_size;
  if (at + size + 1 > wire::kPathMax) {
    error_ = ENAMETOOLONG;
    return false;
  }
  if (at != 0) path_[at++] = '/';
  memcpy(path_ + at, name, size + 1);
  return true;
}

Walker::Step Walker::next() {
  for (;;) {
    Level& level = levels_[depth_];
    error_ = 0;
    if (!fill(level)) {
      if (error_ != 0) return Step::Failed;
      close_fd(level.fd);
      if (depth_ == 0) return Step::End;
      // The folder's own name stands at the end of its path.
      path_[level.path_size] = '\0';
      --depth_;
      const size_t parent = levels_[depth_].path_size;
      name_ = path_ + parent + (parent != 0 ? 1 : 0);
      return Step::Leave;
    }
    uint16_t record = 0;
    memcpy(&record, level.buffer + level.at + kRecordSizeAt, sizeof(record));
    name_ = level.buffer + level.at + kNameAt;
    level.at += record;
    if (is_dot(name_)) continue;
    if (fstatat(level.fd, name_, &info_, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // it went while we looked
      error_ = errno;
      return Step::Failed;
    }
    if (open_up_) open_up_entry(level.fd);
    return set_path(level, name_) ? Step::Entry : Step::Failed;
  }
}

bool Walker::descend() {
  if (depth_ + 1 == kDepthMax) {
    error_ = ELOOP;
    return false;
  }
  int fd = openat(levels_[depth_].fd, name_,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    error_ = errno;
    return false;
  }
  if (on_proc(fd)) {
    close_fd(fd);
    error_ = ENOENT;  // a walk from above leaves it out, like what went in between
    return false;
  }
  Level& level = levels_[++depth_];
  level.fd = fd;
  level.used = level.at = 0;
  level.path_size = strlen(path_);
  return true;
}

}  // namespace caisson::init
