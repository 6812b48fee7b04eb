// Write: the bytes go into a new file beside the target, which then takes its place in one step. A
// reader sees the old content or the new one, and an upload that breaks off leaves nothing.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/init/op_child.h"
#include "guest/init/sys.h"

namespace caisson::init {

using wire::Step;

namespace {

constexpr unsigned kRenameNoReplace = 1;
constexpr uint32_t kFileMode = 0644;
constexpr int kLinksMax = 16;

// Follows links in the last component as open(2) would: writing to a link writes to what it names.
// 0, or -errno.
long resolve_links(char path[wire::kPathMax + 1]) {
  for (int i = 0; i < kLinksMax; ++i) {
    char target[wire::kPathMax + 1];
    const ssize_t got = readlink(path, target, wire::kPathMax);
    if (got < 0) return errno == EINVAL || errno == ENOENT ? 0 : -errno;
    const size_t size = static_cast<size_t>(got);
    target[size] = '\0';
    if (target[0] == '/') {
      memcpy(path, target, size + 1);
      continue;
    }
    char* slash = strrchr(path, '/');
    const size_t folder = static_cast<size_t>(slash - path) + 1;
    if (folder + size > wire::kPathMax) return -ENAMETOOLONG;
    memcpy(path + folder, target, size + 1);
  }
  return -ELOOP;
}

bool temporary_name(char name[40]) {
  uint8_t random[12];
  if (getrandom(random, sizeof(random), 0) != sizeof(random)) return false;
  memcpy(name, ".caisson-", 9);
  char* at = name + 9;
  for (const uint8_t byte : random) {
    *at++ = "0123456789abcdef"[byte >> 4U];
    *at++ = "0123456789abcdef"[byte & 15U];
  }
  *at = '\0';
  return true;
}

uint64_t copy_input(OpChannel& channel, int fd) {
  static uint8_t buffer[256 * 1024];
  uint64_t total = 0;
  for (size_t got = channel.read(buffer, sizeof(buffer)); got != 0;
       got = channel.read(buffer, sizeof(buffer))) {
    size_t written = 0;
    while (written < got) {
      const ssize_t part = write(fd, buffer + written, got - written);
      if (part < 0 && errno == EINTR) continue;
      if (part <= 0) channel.fail(part < 0 ? errno : EIO, Step::Io);
      written += static_cast<size_t>(part);
    }
    total += got;
  }
  return total;
}

// The mode the new file gets: what was asked for, else what the old file had.
uint32_t judge_target(OpChannel& channel, const OpRequest& request, int folder, const char* name) {
  struct stat info{};
  const bool exists = fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (exists && (request.body.flags & wire::kOpExclusive) != 0) channel.fail(EEXIST, Step::Resolve);
  if (exists && S_ISDIR(info.st_mode)) channel.fail(EISDIR, Step::Resolve);
  if (exists && S_ISLNK(info.st_mode)) channel.fail(ELOOP, Step::Resolve);
  if (exists && !S_ISREG(info.st_mode)) channel.fail(EINVAL, Step::Resolve, "not a regular file");
  if (request.body.mode != 0) return request.body.mode;
  return exists ? info.st_mode & 07777U : kFileMode;
}

// The folder that the file is in, made where that is wanted.
int open_folder(OpChannel& channel, const OpRequest& request, const char* parent) {
  const bool parents = (request.body.flags & wire::kOpParents) != 0;
  if ((request.body.flags & wire::kOpNoLinks) != 0) {
    const int folder = open_parent_without_links(parent, parents);
    if (folder < 0) channel.fail(-folder, Step::Resolve);
    return folder;
  }
  if (parents) {
    const long made = make_folders(parent, 0755);
    if (made < 0) channel.fail(static_cast<int>(-made), Step::Resolve);
  }
  const int folder = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) channel.fail(errno, Step::Resolve);
  return folder;
}

// In the file itself: what an append has written stays, whatever becomes of the rest.
[[noreturn]] void append_input(OpChannel& channel, int folder, const char* name, uint32_t mode) {
  const int fd =
      openat(folder, name,
             O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
  if (fd < 0) channel.fail(errno, Step::Resolve);
  const uint64_t total = copy_input(channel, fd);
  if (close(fd) != 0) channel.fail(errno, Step::Io);
  channel.done(total, 1);
}

}  // namespace

void op_write(OpChannel& channel, const OpRequest& request) {
  static char path[wire::kPathMax + 1];
  static char parent[wire::kPathMax + 1];
  memcpy(path, request.path, strlen(request.path) + 1);
  const bool links = (request.body.flags & wire::kOpNoLinks) == 0;
  const long resolved = links ? resolve_links(path) : 0;
  if (resolved < 0) channel.fail(static_cast<int>(-resolved), Step::Resolve);
  const char* name = split_path(path, parent);
  if (name == nullptr || path[strlen(path) - 1] == '/') channel.fail(EISDIR, Step::Resolve);
  const int folder = open_folder(channel, request, parent);
  const uint32_t mode = judge_target(channel, request, folder, name);
  if ((request.body.flags & wire::kOpAppend) != 0) append_input(channel, folder, name, mode);

  char temporary[40];
  if (!temporary_name(temporary)) channel.fail(EIO, Step::Io);
  temporary_set(folder,
                temporary);  // before it exists: a cancel in between finds nothing to remove
  const int fd =
      openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) channel.fail(errno, Step::Resolve);
  const uint64_t total = copy_input(channel, fd);
  if ((request.body.flags & wire::kOpSocket) != 0) channel.await_commit(total);
  if (fchmod(fd, mode) != 0) channel.fail(errno, Step::Io);
  // Before the file has its name: one that is still open for writing cannot be executed.
  if (close(fd) != 0) channel.fail(errno, Step::Io);
  const bool exclusive = (request.body.flags & wire::kOpExclusive) != 0;
  long moved = rename_at(folder, temporary, folder, name, exclusive ? kRenameNoReplace : 0);
  if (moved == -EINVAL &&
      exclusive) {  // a file system without the flag: a link refuses to replace, too
    moved = linkat(folder, temporary, folder, name, 0) == 0 ? 0 : -errno;
    if (moved == 0) unlinkat(folder, temporary, 0);
  }
  if (moved < 0) channel.fail(static_cast<int>(-moved), Step::Resolve);
  temporary_clear();
  channel.done(total, 1);
}

}  // namespace caisson::init
