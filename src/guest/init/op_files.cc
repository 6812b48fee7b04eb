// Stat, Read, Mkdir, Move. A path is resolved by the kernel, as the guest's user, inside the
// guest's root: a link leads where it would lead the guest himself, and nowhere else.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/init/op_child.h"
#include "guest/init/sys.h"

namespace caisson::init {

using wire::Step;

namespace {

constexpr unsigned kRenameNoReplace = 1;
constexpr uint32_t kFolderMode = 0755;

}  // namespace

const char* split_path(const char* path, char parent[wire::kPathMax + 1]) {
  size_t size = strlen(path);
  while (size > 1 && path[size - 1] == '/') --size;
  size_t slash = size;
  while (slash > 0 && path[slash - 1] != '/') --slash;
  // The last component keeps a trailing slash out of its name: it is copied behind the parent's
  // end.
  const size_t name_size = size - slash;
  if (slash == 0 || name_size == 0 || size > wire::kPathMax - 1) return nullptr;
  memcpy(parent, path, slash);
  parent[slash] = '\0';
  char* name = parent + slash + 1;
  memcpy(name, path + slash, name_size);
  name[name_size] = '\0';
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return nullptr;
  return name;
}

long make_folders(const char* path, uint32_t mode) {
  char part[wire::kPathMax + 1];
  const size_t size = strlen(path);
  if (size > wire::kPathMax) return -ENAMETOOLONG;
  memcpy(part, path, size + 1);
  for (size_t i = 1; i <= size; ++i) {
    if (part[i] != '/' && part[i] != '\0') continue;
    const char kept = part[i];
    part[i] = '\0';
    const bool last = kept == '\0';
    if (mkdir(part, last ? mode : kFolderMode) != 0 && errno != EEXIST) {
      // A parent that exists on a read-only or foreign folder says so instead of EEXIST.
      struct stat info{};
      const int failed = errno;
      if (stat(part, &info) != 0 || !S_ISDIR(info.st_mode)) return -failed;
    }
    part[i] = kept;
  }
  struct stat info{};
  if (stat(path, &info) != 0) return -errno;
  return S_ISDIR(info.st_mode) ? 0 : -ENOTDIR;
}

long make_parents(const char* path) {
  char parent[wire::kPathMax + 1];
  if (split_path(path, parent) == nullptr) return -EINVAL;
  return make_folders(parent, kFolderMode);
}

void op_stat(OpChannel& channel, const OpRequest& request) {
  struct stat info{};
  const bool follow = (request.body.flags & wire::kOpNoFollow) == 0;
  const int done = follow ? stat(request.path, &info) : lstat(request.path, &info);
  if (done != 0) channel.fail(errno, Step::Resolve);
  char target[wire::kPathMax + 1] = {};
  if (S_ISLNK(info.st_mode)) {
    const ssize_t size = readlink(request.path, target, wire::kPathMax);
    target[size > 0 ? size : 0] = '\0';
  }
  channel.entry(info, "", target, 0);
  channel.done(0, 1);
}

namespace {

int open_to_read(const OpRequest& request) {
  // Without O_NONBLOCK a fifo would wait for its writer.
  constexpr int kHow = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  if ((request.body.flags & wire::kOpNoLinks) == 0) {
    const int fd = open(request.path, kHow);
    return fd < 0 ? -errno : fd;
  }
  static char parent[wire::kPathMax + 1];
  const char* name = split_path(request.path, parent);
  if (name == nullptr) return -EISDIR;
  const int folder = open_parent_without_links(parent, false);
  if (folder < 0) return folder;
  const int fd = openat(folder, name, kHow | O_NOFOLLOW);
  return fd < 0 ? -errno : fd;
}

}  // namespace

void op_read(OpChannel& channel, const OpRequest& request) {
  const int fd = open_to_read(request);
  if (fd < 0) channel.fail(-fd, Step::Resolve);
  if (on_proc(fd))
    channel.fail(EACCES, Step::Resolve, "a file of procfs; ask a command to read it");
  struct stat info{};
  if (fstat(fd, &info) != 0) channel.fail(errno, Step::Io);
  if (S_ISDIR(info.st_mode)) channel.fail(EISDIR, Step::Resolve);
  if (!S_ISREG(info.st_mode)) channel.fail(EINVAL, Step::Resolve, "not a regular file");
  uint64_t offset = request.body.offset;
  const uint64_t length = request.body.length;
  if (offset > INT64_MAX) channel.fail(EINVAL, Step::Request);
  const uint64_t end =
      length == 0 || length > INT64_MAX - offset ? uint64_t{INT64_MAX} : offset + length;
  static uint8_t buffer[4 * wire::kDataMax];
  while (offset < end) {
    const size_t wanted = smaller<uint64_t>(sizeof(buffer), end - offset);
    const ssize_t got = pread(fd, buffer, wanted, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) channel.fail(errno, Step::Io);
    if (got == 0) break;
    channel.data(offset, buffer, static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  channel.done(offset - request.body.offset, 1);
}

void op_mkdir(OpChannel& channel, const OpRequest& request) {
  const uint32_t mode = request.body.mode != 0 ? request.body.mode : kFolderMode;
  if ((request.body.flags & wire::kOpParents) != 0) {
    const long made = make_folders(request.path, mode);
    if (made < 0) channel.fail(static_cast<int>(-made), Step::Resolve);
  } else if (mkdir(request.path, mode) != 0) {
    channel.fail(errno, Step::Resolve);
  }
  channel.done(0, 1);
}

void op_move(OpChannel& channel, const OpRequest& request) {
  if ((request.body.flags & wire::kOpParents) != 0) {
    const long made = make_parents(request.path2);
    if (made < 0) channel.fail(static_cast<int>(-made), Step::Resolve);
  }
  const bool replace = (request.body.flags & wire::kOpReplace) != 0;
  long moved =
      rename_at(AT_FDCWD, request.path, AT_FDCWD, request.path2, replace ? 0 : kRenameNoReplace);
  // A file system without the flag: the check then races only with the guest's own user.
  if (moved == -EINVAL && !replace) {
    struct stat info{};
    if (lstat(request.path2, &info) == 0) channel.fail(EEXIST, Step::Resolve);
    moved = rename_at(AT_FDCWD, request.path, AT_FDCWD, request.path2, 0);
  }
  if (moved < 0) channel.fail(static_cast<int>(-moved), Step::Resolve);
  channel.done(0, 1);
}

}  // namespace caisson::init
