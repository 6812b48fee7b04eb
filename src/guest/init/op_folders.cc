// List and Remove.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "guest/init/op_child.h"
#include "guest/init/sys.h"
#include "guest/init/walker.h"

namespace caisson::init {

using wire::Step;

namespace {

constexpr uint64_t kEntriesMax = 1000000;

// A folder that went, or became something else, while we were on our way into it.
bool vanished(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP; }

[[noreturn]] void fail_at(OpChannel& channel, int error, const char* path) {
  channel.fail(error, Step::Io, path);
}

}  // namespace

void op_list(OpChannel& channel, const OpRequest& request) {
  static Walker walker;
  const bool open_up = (request.body.flags & wire::kOpOpenUp) != 0;
  if (!walker.open(request.path, open_up)) channel.fail(errno, Step::Resolve);
  const bool recursive = (request.body.flags & wire::kOpRecursive) != 0;
  uint64_t count = 0;
  for (;;) {
    const Walker::Step step = walker.next();
    if (step == Walker::Step::End) channel.done(0, count);
    if (step == Walker::Step::Failed) fail_at(channel, walker.error(), walker.path());
    if (step == Walker::Step::Leave) continue;
    if (++count > kEntriesMax) channel.fail(EOVERFLOW, Step::Limit, "too many entries");
    static char target[wire::kPathMax + 1];
    target[0] = '\0';
    if (S_ISLNK(walker.info().st_mode)) {
      const ssize_t size = readlinkat(walker.folder(), walker.name(), target, wire::kPathMax);
      target[size > 0 ? size : 0] = '\0';
    }
    channel.entry(walker.info(), walker.path(), target, walker.depth());
    if (!recursive || !S_ISDIR(walker.info().st_mode)) continue;
    // A folder that may not be read is listed and left out, like one that just went.
    if (walker.descend()) continue;
    const bool too_deep = walker.depth() + 1 == Walker::kDepthMax;
    if (too_deep) channel.fail(ELOOP, Step::Limit, "too deep");
    if (walker.error() != EACCES && !vanished(walker.error()))
      fail_at(channel, walker.error(), walker.path());
  }
}

void op_remove(OpChannel& channel, const OpRequest& request) {
  struct stat info{};
  if (lstat(request.path, &info) != 0) channel.fail(errno, Step::Resolve);
  if (!S_ISDIR(info.st_mode)) {
    if (unlink(request.path) != 0) channel.fail(errno, Step::Resolve);
    channel.done(0, 1);
  }
  if (rmdir(request.path) == 0) channel.done(0, 1);
  const bool recursive = (request.body.flags & wire::kOpRecursive) != 0;
  if (!recursive || (errno != ENOTEMPTY && errno != EEXIST)) channel.fail(errno, Step::Resolve);
  static Walker walker;
  if (!walker.open(request.path)) channel.fail(errno, Step::Resolve);
  uint64_t count = 0;
  for (;;) {
    const Walker::Step step = walker.next();
    if (step == Walker::Step::Failed) fail_at(channel, walker.error(), walker.path());
    if (step == Walker::Step::End) break;
    const bool leaves = step == Walker::Step::Leave;
    if (!leaves && S_ISDIR(walker.info().st_mode)) {
      if (unlinkat(walker.folder(), walker.name(), AT_REMOVEDIR) == 0) {
        ++count;
      } else if (!walker.descend()) {
        fail_at(channel, walker.error(), walker.path());
      }
      continue;
    }
    if (unlinkat(walker.folder(), walker.name(), leaves ? AT_REMOVEDIR : 0) == 0) {
      ++count;
    } else if (errno != ENOENT) {
      fail_at(channel, errno, walker.path());
    }
  }
  if (rmdir(request.path) != 0) channel.fail(errno, Step::Resolve);
  channel.done(0, count + 1);
}

}  // namespace caisson::init
