#include "guest/init/name_walker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/init/sys.h"

namespace caisson::init {
namespace {

// struct linux_dirent64: inode, offset, record size, type, name.
constexpr long kRecordSizeAt = 16;
constexpr long kTypeAt = 18;
constexpr long kNameAt = 19;
constexpr size_t kBufferBytes = 32UL * 1024;

bool is_dot(const char* name) {
  return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

int by_name(const void* a, const void* b) {
  return strcmp(*static_cast<const char* const*>(a), *static_cast<const char* const*>(b));
}

// Some file systems do not say what a name is.
uint8_t ask_type(int folder, const char* name) {
  struct stat info{};
  if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return DT_UNKNOWN;
  return static_cast<uint8_t>(IFTODT(info.st_mode));
}

}  // namespace

bool NameWalker::open(int folder) {
  if (bytes_ == nullptr) bytes_ = reinterpret_cast<char*>(map_unshared(kNamesBytesMax));
  if (names_ == nullptr)
    names_ = reinterpret_cast<const char**>(map_unshared(kNamesMax * sizeof(const char*)));
  error_ = ENOMEM;
  if (bytes_ == nullptr || names_ == nullptr) return false;
  depth_ = 0;
  levels_[0].fd = folder;
  levels_[0].path_size = 0;
  return read_names(levels_[0]);
}

bool NameWalker::add_name(const char* name, uint8_t type) {
  const size_t size = strlen(name) + 1;
  if (names_used_ == kNamesMax || kNamesBytesMax - bytes_used_ < size + 1) return false;
  char* at = bytes_ + bytes_used_;
  at[0] = static_cast<char>(type);
  memcpy(at + 1, name, size);
  bytes_used_ += size + 1;
  names_[names_used_++] = at + 1;
  return true;
}

bool NameWalker::read_names(Level& level) {
  alignas(8) static char buffer[kBufferBytes];
  level.bytes_begin = bytes_used_;
  level.names_begin = level.at = names_used_;
  long got = 0;
  while ((got = read_folder(level.fd, buffer, sizeof(buffer))) > 0) {
    for (long at = 0; at < got;) {
      uint16_t record = 0;
      memcpy(&record, buffer + at + kRecordSizeAt, sizeof(record));
      const char* name = buffer + at + kNameAt;
      const auto type = static_cast<uint8_t>(buffer[at + kTypeAt]);
      at += record;
      if (is_dot(name)) continue;
      error_ = EOVERFLOW;
      if (!add_name(name, type)) return false;
    }
  }
  error_ = static_cast<int>(-got);
  level.names_end = names_used_;
  qsort(static_cast<void*>(names_ + level.names_begin), level.names_end - level.names_begin,
        sizeof(const char*), by_name);
  return got == 0;
}

bool NameWalker::set_path(const Level& level) {
  const size_t size = strlen(name_);
  size_t at = level.path_size;
  if (at + size + 1 > wire::kPathMax) return false;
  if (at != 0) path_[at++] = '/';
  memcpy(path_ + at, name_, size + 1);
  return true;
}

NameWalker::Step NameWalker::next() {
  for (;;) {
    Level& level = levels_[depth_];
    if (level.at == level.names_end) {
      close_fd(level.fd);
      bytes_used_ = level.bytes_begin;
      names_used_ = level.names_begin;
      if (depth_ == 0) return Step::End;
      --depth_;
      continue;
    }
    name_ = names_[level.at++];
    type_ = static_cast<uint8_t>(name_[-1]);
    if (type_ == DT_UNKNOWN) type_ = ask_type(level.fd, name_);
    if (type_ == DT_UNKNOWN) continue;  // it went while we looked
    if (set_path(level)) return Step::Entry;
    error_ = ENAMETOOLONG;
    return Step::Failed;
  }
}

bool NameWalker::descend() {
  error_ = EOVERFLOW;
  if (depth_ + 1 == kDepthMax) return false;
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
  Level& level = levels_[depth_ + 1];
  level.fd = fd;
  level.path_size = strlen(path_);
  if (!read_names(level)) {
    bytes_used_ = level.bytes_begin;
    names_used_ = level.names_begin;
    close_fd(level.fd);
    return false;
  }
  ++depth_;
  return true;
}

}  // namespace caisson::init
