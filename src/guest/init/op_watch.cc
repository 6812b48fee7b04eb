// Watch: inotify on one folder, or on all below it, until the host has enough.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/init/op_child.h"
#include "guest/init/sys.h"
#include "guest/init/walker.h"

namespace caisson::init {

using wire::Step;

namespace {

constexpr int kWatchFoldersMax = 4096;
constexpr uint32_t kMask = IN_CREATE | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM |
                           IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_EXCL_UNLINK;

struct Folder {
  int watch = -1;              // -1: free
  const char* path = nullptr;  // relative to the watched one, "" for itself
};

class Watcher {
 public:
  Watcher(OpChannel& channel, const OpRequest& request)
      : channel_(channel),
        root_(request.path),
        recursive_((request.body.flags & wire::kOpRecursive) != 0) {}

  [[noreturn]] void run();

 private:
  void add(const char* relative);
  void add_below(const char* relative);
  void forget_below(const char* relative);
  void full_path(const char* relative, char to[2 * wire::kPathMax + 2]) const;
  [[nodiscard]] const char* folder_of(int watch) const;
  void take(const inotify_event& event);

  OpChannel& channel_;
  const char* root_;
  bool recursive_;
  int fd_ = -1;
  int count_ = 0;
  Folder folders_[kWatchFoldersMax];
  // One path per folder, each as long as paths may be; pages that no path touches cost nothing.
  char paths_[kWatchFoldersMax][wire::kPathMax + 1];
};

void Watcher::full_path(const char* relative, char to[2 * wire::kPathMax + 2]) const {
  const size_t root_size = strnlen(root_, wire::kPathMax);
  const size_t size = strnlen(relative, wire::kPathMax);
  memcpy(to, root_, root_size);
  to[root_size] = '/';
  memcpy(to + root_size + 1, relative, size);
  to[root_size + 1 + size] = '\0';
}

const char* Watcher::folder_of(int watch) const {
  for (int i = 0; i < count_; ++i) {
    if (folders_[i].watch == watch) return folders_[i].path;
  }
  return nullptr;
}

void Watcher::add(const char* relative) {
  static char full[2 * wire::kPathMax + 2];
  full_path(relative, full);
  const uint32_t no_follow = *relative != '\0' ? IN_DONT_FOLLOW : 0U;
  const int watch = inotify_add_watch(fd_, full, kMask | IN_ONLYDIR | no_follow);
  if (watch < 0) {
    if (errno == ENOSPC) channel_.fail(ENOSPC, Step::Limit, "too many folders to watch");
    if (*relative == '\0') channel_.fail(errno, Step::Resolve);
    return;  // it went, or may not be read: nothing to tell
  }
  int slot = 0;
  while (slot < count_ && folders_[slot].watch != -1 && folders_[slot].watch != watch) ++slot;
  if (slot == kWatchFoldersMax) channel_.fail(EOVERFLOW, Step::Limit, "too many folders to watch");
  if (slot == count_) ++count_;
  folders_[slot].watch = watch;
  folders_[slot].path = paths_[slot];
  const size_t size = strnlen(relative, wire::kPathMax);
  memcpy(paths_[slot], relative, size);
  paths_[slot][size] = '\0';
}

// The folder itself is watched before it is read: what appears in between is then seen by one of
// the two.
void Watcher::add_below(const char* relative) {
  static Walker walker;
  static char full[2 * wire::kPathMax + 2];
  static char path[wire::kPathMax + 1];
  add(relative);
  if (!recursive_) return;
  full_path(relative, full);
  if (!walker.open(full)) return;
  for (Walker::Step step = walker.next(); step != Walker::Step::End; step = walker.next()) {
    if (step == Walker::Step::Failed) return;
    if (step == Walker::Step::Leave || !S_ISDIR(walker.info().st_mode)) continue;
    const size_t base = strlen(relative);
    const size_t size = strlen(walker.path());
    if (base + size + 1 > wire::kPathMax) continue;
    memcpy(path, relative, base);
    if (base != 0) path[base] = '/';
    const size_t at = base + (base != 0 ? 1 : 0);
    memcpy(path + at, walker.path(), size);
    path[at + size] = '\0';
    add(path);
    walker.descend();
  }
}

void Watcher::forget_below(const char* relative) {
  const size_t size = strlen(relative);
  for (int i = 0; i < count_; ++i) {
    if (folders_[i].watch < 0 || strncmp(folders_[i].path, relative, size) != 0) continue;
    if (folders_[i].path[size] != '\0' && folders_[i].path[size] != '/') continue;
    inotify_rm_watch(fd_, folders_[i].watch);
    folders_[i].watch = -1;
  }
}

uint32_t meaning_of(uint32_t mask) {
  uint32_t meaning = 0;
  if ((mask & IN_CREATE) != 0) meaning |= wire::kEventCreated;
  if ((mask & (IN_CLOSE_WRITE | IN_ATTRIB)) != 0) meaning |= wire::kEventChanged;
  if ((mask & IN_DELETE) != 0) meaning |= wire::kEventRemoved;
  if ((mask & IN_MOVED_FROM) != 0) meaning |= wire::kEventMovedFrom;
  if ((mask & IN_MOVED_TO) != 0) meaning |= wire::kEventMovedTo;
  if (meaning != 0 && (mask & IN_ISDIR) != 0) meaning |= wire::kEventFolder;
  return meaning;
}

void Watcher::take(const inotify_event& event) {
  if ((event.mask & IN_Q_OVERFLOW) != 0) return channel_.event(wire::kEventOverflow, 0, "");
  const char* folder = folder_of(event.wd);
  if (folder == nullptr) return;
  const bool is_root = *folder == '\0';
  if ((event.mask & IN_IGNORED) != 0) {
    for (int i = 0; i < count_; ++i) {
      if (folders_[i].watch == event.wd) folders_[i].watch = -1;
    }
    if (is_root) channel_.fail(ENOENT, Step::Resolve, "the watched folder is gone");
    return;
  }
  const uint32_t meaning = meaning_of(event.mask);
  if (meaning == 0) return;
  static char path[2 * wire::kPathMax];
  const size_t base = strlen(folder);
  memcpy(path, folder, base);
  if (base != 0) path[base] = '/';
  const char* name = event.len != 0 ? event.name : "";
  const size_t size = strnlen(name, 255);
  memcpy(path + base + (base != 0 ? 1 : 0), name, size);
  path[base + (base != 0 ? 1 : 0) + size] = '\0';
  channel_.event(meaning, event.cookie, path);
  const bool sub_folder = recursive_ && (event.mask & IN_ISDIR) != 0 && size != 0;
  if (!sub_folder) return;
  if ((event.mask & IN_MOVED_FROM) != 0) forget_below(path);
  if ((event.mask & (IN_CREATE | IN_MOVED_TO)) != 0) add_below(path);
}

void Watcher::run() {
  fd_ = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (fd_ < 0) channel_.fail(errno, Step::Io);
  add_below("");
  channel_.event(0, 0, "");  // from here on nothing is missed
  alignas(inotify_event) static char buffer[16 * 1024];
  for (;;) {
    pollfd wanted[2] = {{fd_, POLLIN, 0}, {channel_.socket(), POLLIN, 0}};
    if (poll(wanted, 2, -1) < 0 && errno != EINTR) channel_.fail(errno, Step::Io);
    if ((wanted[1].revents & (POLLHUP | POLLERR)) != 0) _exit(1);
    if ((wanted[1].revents & POLLIN) != 0) {
      wire::CreditBody unused{};  // events need none
      if (recv(channel_.socket(), &unused, sizeof(unused), MSG_DONTWAIT) == 0) _exit(1);
    }
    const ssize_t got = read(fd_, buffer, sizeof(buffer));
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      take(*event);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
}

}  // namespace

void op_watch(OpChannel& channel, const OpRequest& request) {
  static Watcher only(channel, request);
  only.run();
}

}  // namespace caisson::init
