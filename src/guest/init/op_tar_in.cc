// TarIn: unpacks a tar stream below a folder, touching nothing else. Every parent of every entry is
// opened by below.h, so no link leads anywhere, whether it came with this archive, with an earlier
// one, or is put there by the guest while we work. Last entry of a name wins.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/init/below.h"
#include "guest/init/op_child.h"
#include "guest/init/sys.h"
#include "guest/init/tar_parser.h"

namespace caisson::init {

using wire::Step;

namespace {

constexpr uint64_t kEntriesMax = 1000000;
constexpr uint32_t kFolderMode = 0755;
constexpr uint32_t kWriteNeeds = S_IRWXU;

// Files this archive made, by inode: a hard link may name these and nothing older. Open addressing,
// grown by doubling.
class MadeFiles {
 public:
  bool add(uint64_t inode) {
    if (2 * (count_ + 1) > size_ && !grow()) return false;
    ++count_;
    insert(inode);
    return true;
  }
  [[nodiscard]] bool has(uint64_t inode) const {
    if (size_ == 0) return false;
    for (size_t i = home(inode);; i = (i + 1) % size_) {
      if (slots_[i] == inode) return true;
      if (slots_[i] == 0) return false;
    }
  }

 private:
  [[nodiscard]] size_t home(uint64_t inode) const {
    return (inode * 0x9e3779b97f4a7c15ULL >> 20U) % size_;
  }
  void insert(uint64_t inode) {
    size_t i = home(inode);
    while (slots_[i] != 0 && slots_[i] != inode) i = (i + 1) % size_;
    slots_[i] = inode;
  }
  bool grow() {
    const size_t old_size = size_;
    uint64_t* old = slots_;
    size_ = old_size == 0 ? 1024 : 2 * old_size;
    slots_ = reinterpret_cast<uint64_t*>(map_unshared(size_ * sizeof(uint64_t)));
    if (slots_ == nullptr) return false;
    for (size_t i = 0; i < old_size; ++i) {
      if (old[i] != 0) insert(old[i]);
    }
    unmap(reinterpret_cast<uint8_t*>(old), old_size * sizeof(uint64_t));
    return true;
  }
  uint64_t* slots_ = nullptr;
  size_t size_ = 0;
  size_t count_ = 0;
};

class Extractor {
 public:
  Extractor(OpChannel& channel, int target, uint32_t flags)
      : channel_(channel), below_(target), tells_((flags & wire::kOpTell) != 0) {
    if ((flags & wire::kOpOpenUp) != 0) below_.open_up(kWriteNeeds);
    const auto made = [](void* self, int folder, const char* path, size_t size) {
      static_cast<Extractor*>(self)->tell_folder(folder, path, size);
    };
    below_.on_made(made, this);
  }

  void begin(const TarEntry& entry);
  void content(const uint8_t* bytes, size_t size);
  void end(const TarEntry& entry);
  void finish() { leave_folders(""); }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t count() const { return count_; }

 private:
  // A folder's mode and time are set when the last entry below it is done: entries change its time,
  // and need its mode.
  struct Pending {
    size_t name_size;
    uint32_t mode;
    timespec mtime;
  };

  const char* enter_parent();
  void make_folder(const char* name, const TarEntry& entry);
  void make_file(const char* name);
  void make_link(const char* name, const TarEntry& entry);
  void make_hard_link(const char* name, const TarEntry& entry);
  void make_room(const char* name);
  int open_below(const char* path, size_t size, bool create);
  void leave_folders(const char* next);
  void tell(const struct stat& info, const char* path, size_t size, const char* target);
  void tell_name(int folder, const char* name, const char* path, const char* target);
  void tell_folder(int folder, const char* path, size_t size);
  [[noreturn]] void fail(int error) { channel_.fail(error, Step::Archive, path_); }

  OpChannel& channel_;
  Below below_;
  bool tells_;
  int parent_ = -1;  // folder of the current entry; below_ keeps it
  int file_ = -1;
  uint64_t bytes_ = 0;
  uint64_t count_ = 0;
  MadeFiles made_;
  uint32_t pending_count_ = 0;
  Pending pending_[kTarDepthMax + 1] = {};
  char pending_path_[wire::kPathMax + 1] = {};
  char path_[wire::kPathMax + 1] = {};
};

int Extractor::open_below(const char* path, size_t size, bool create) {
  const int fd = below_.open(path, size, create);
  if (fd < 0) fail(-fd);
  return fd;
}

// Makes parent_ the folder of path_ and gives the last component.
const char* Extractor::enter_parent() {
  const char* slash = strrchr(path_, '/');
  const size_t size = slash != nullptr ? static_cast<size_t>(slash - path_) : 0;
  const char* name = slash != nullptr ? slash + 1 : path_;
  if (strlen(name) > 255) fail(ENAMETOOLONG);
  parent_ = below_.enter(path_, size, true);
  if (parent_ < 0) fail(-parent_);
  return name;
}

// What it is by now, after the last change that is ours.
void Extractor::tell(const struct stat& info, const char* path, size_t size, const char* target) {
  if (!tells_) return;
  uint32_t depth = 0;
  for (size_t i = 0; i < size; ++i) depth += path[i] == '/' ? 1 : 0;
  channel_.entry(info, {reinterpret_cast<const uint8_t*>(path), size}, target, depth);
}

void Extractor::tell_name(int folder, const char* name, const char* path, const char* target) {
  struct stat info{};
  if (!tells_ || fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return;
  tell(info, path, strlen(path), target);
}

void Extractor::tell_folder(int folder, const char* path, size_t size) {
  struct stat info{};
  if (tells_ && fstat(folder, &info) == 0) tell(info, path, size, "");
}

// Whatever has the name and is no folder goes; a folder is never replaced by something else.
void Extractor::make_room(const char* name) {
  if (unlinkat(parent_, name, 0) == 0 || errno == ENOENT) return;
  struct stat info{};
  const int failed = errno;
  if (fstatat(parent_, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode))
    fail(EISDIR);
  fail(failed);
}

void Extractor::make_file(const char* name) {
  make_room(name);
  file_ = openat(parent_, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file_ < 0) fail(errno);
  struct stat info{};
  if (fstat(file_, &info) != 0) fail(errno);
  if (!made_.add(info.st_ino)) fail(ENOMEM);
}

void Extractor::make_folder(const char* name, const TarEntry& entry) {
  struct stat info{};
  const bool exists = fstatat(parent_, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (exists && !S_ISDIR(info.st_mode)) make_room(name);
  if ((!exists || !S_ISDIR(info.st_mode)) && mkdirat(parent_, name, 0700) != 0) fail(errno);
  memcpy(pending_path_, path_, strlen(path_) + 1);
  pending_[pending_count_++] =
      Pending{strlen(path_), entry.mode, {entry.mtime_s, static_cast<long>(entry.mtime_ns)}};
}

void Extractor::make_link(const char* name, const TarEntry& entry) {
  if (entry.link[0] == '\0') fail(EINVAL);
  make_room(name);
  if (symlinkat(entry.link, parent_, name) != 0) fail(errno);
  const timespec times[2] = {{0, UTIME_OMIT}, {entry.mtime_s, static_cast<long>(entry.mtime_ns)}};
  utimensat(parent_, name, times, AT_SYMLINK_NOFOLLOW);  // a link's time is a courtesy
  tell_name(parent_, name, path_, entry.link);
}

void Extractor::make_hard_link(const char* name, const TarEntry& entry) {
  static char from[wire::kPathMax + 1];
  if (!tar_safe_name(entry.link, from) || from[0] == '\0') fail(EPERM);
  const char* slash = strrchr(from, '/');
  const size_t folder_size = slash != nullptr ? static_cast<size_t>(slash - from) : 0;
  const char* from_name = slash != nullptr ? slash + 1 : from;
  if (strcmp(from, path_) == 0) return;
  const int folder = open_below(from, folder_size, false);
  struct stat info{};
  if (fstatat(folder, from_name, &info, AT_SYMLINK_NOFOLLOW) != 0) fail(errno);
  if (!S_ISREG(info.st_mode) || !made_.has(info.st_ino)) fail(EPERM);
  make_room(name);
  if (linkat(folder, from_name, parent_, name, 0) != 0) fail(errno);
  tell_name(folder, from_name, from, "");  // it has another link count, and so another ctime
  tell_name(parent_, name, path_, "");
  below_.leave(folder);
}

// Settles every pending folder that `next` is not below.
void Extractor::leave_folders(const char* next) {
  while (pending_count_ > 0) {
    const Pending& folder = pending_[pending_count_ - 1];
    const bool below =
        strncmp(pending_path_, next, folder.name_size) == 0 && next[folder.name_size] == '/';
    if (below) return;
    --pending_count_;
    const int fd = open_below(pending_path_, folder.name_size, false);
    const timespec times[2] = {{0, UTIME_OMIT}, folder.mtime};
    // O_PATH descriptors take no fchmod: a plain one of the same folder does.
    const int plain = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (plain >= 0) {
      futimens(plain, times);
      if (fchmod(plain, folder.mode) != 0) fail(errno);
      close(plain);
    }
    tell_folder(fd, pending_path_, folder.name_size);
    below_.leave(fd);
  }
}

void Extractor::begin(const TarEntry& entry) {
  strncpy(path_, entry.name, wire::kPathMax);  // what a failure names
  static char safe[wire::kPathMax + 1];
  if (!tar_safe_name(entry.name, safe)) fail(EPERM);
  if (entry.type == TarType::Refused) fail(EPERM);
  if (++count_ > kEntriesMax) channel_.fail(EOVERFLOW, Step::Limit, "too many entries");
  leave_folders(safe);
  memcpy(path_, safe, strlen(safe) + 1);
  if (path_[0] == '\0') {  // the target itself: it is there already, and stays as it is
    if (entry.type != TarType::Folder) fail(EPERM);
    return;
  }
  const char* name = enter_parent();
  switch (entry.type) {
    case TarType::File:
      make_file(name);
      break;
    case TarType::Folder:
      make_folder(name, entry);
      break;
    case TarType::Link:
      make_link(name, entry);
      break;
    case TarType::HardLink:
      make_hard_link(name, entry);
      break;
    case TarType::Refused:
      break;
  }
}

void Extractor::content(const uint8_t* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = write(file_, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(written < 0 ? errno : EIO);
    bytes += written;
    size -= static_cast<size_t>(written);
    bytes_ += static_cast<uint64_t>(written);
  }
}

void Extractor::end(const TarEntry& entry) {
  if (file_ < 0) return;
  if (fchmod(file_, entry.mode) != 0) fail(errno);
  const timespec times[2] = {{0, UTIME_OMIT}, {entry.mtime_s, static_cast<long>(entry.mtime_ns)}};
  futimens(file_, times);  // a time that the file system cannot hold is no reason to lose the file
  struct stat info{};
  if (tells_ && fstat(file_, &info) == 0) tell(info, path_, strlen(path_), "");
  close_fd(file_);
}

}  // namespace

void op_tar_in(OpChannel& channel, const OpRequest& request) {
  if ((request.body.flags & wire::kOpParents) != 0) {
    const long made = make_folders(request.path, kFolderMode);
    if (made < 0) channel.fail(static_cast<int>(-made), Step::Resolve);
  }
  const int target = open(request.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (target < 0) channel.fail(errno, Step::Resolve);
  static Extractor extractor(channel, target, request.body.flags);
  static TarParser parser;
  static uint8_t buffer[64 * 1024];
  bool ended = false;
  for (size_t got = channel.read(buffer, sizeof(buffer)); got != 0;
       got = channel.read(buffer, sizeof(buffer))) {
    for (size_t at = 0;;) {
      size_t used = 0;
      const TarParser::Event event = parser.feed(buffer + at, got - at, used);
      at += used;
      if (event == TarParser::Event::Bad) channel.fail(EINVAL, Step::Archive, parser.error());
      if (event == TarParser::Event::Entry) extractor.begin(parser.entry());
      if (event == TarParser::Event::Content)
        extractor.content(parser.content(), parser.content_size());
      if (event == TarParser::Event::EntryEnd) extractor.end(parser.entry());
      if (event == TarParser::Event::End) ended = true;
      if (event == TarParser::Event::NeedMore) break;
    }
  }
  if (!ended && !parser.may_stop()) channel.fail(EINVAL, Step::Archive, "the archive breaks off");
  extractor.finish();
  channel.done(extractor.bytes(), extractor.count());
}

}  // namespace caisson::init
