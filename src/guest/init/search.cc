#include "guest/init/search.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "guest/init/glob.h"
#include "guest/init/sys.h"

namespace caisson::init {

using wire::Step;

// Each string has at least its end, so there are at most as many as there are bytes.
Pruning::Pruning(OpChannel& channel, OpStrings& strings)
    : patterns_(reinterpret_cast<const char**>(
          map_unshared(wire::kPatternBytesMax * sizeof(const char*)))) {
  if (patterns_ == nullptr) channel.fail(ENOMEM, Step::Io);
  for (const char* text = strings.next(); text != nullptr; text = strings.next())
    patterns_[count_++] = text;
}

bool Pruning::covers(const char* folder) const {
  for (size_t i = 0; i < count_; ++i) {
    if (glob_name(patterns_[i], folder)) return true;
  }
  return false;
}

int open_search(OpChannel& channel, const char* path, int more) {
  const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | more);
  if (folder < 0) channel.fail(errno, Step::Resolve);
  if (on_proc(folder)) channel.fail(EACCES, Step::Resolve);
  struct stat info{};
  if (fstatat(folder, ".", &info, 0) != 0) channel.fail(errno, Step::Resolve);
  return folder;
}

bool may_be_skipped(int error) {
  return error == EACCES || error == ENOENT || error == ENOTDIR || error == ELOOP;
}

void fail_walk(OpChannel& channel, const NameWalker& walker) {
  const bool limit = walker.error() == EOVERFLOW;
  channel.fail(walker.error(), limit ? Step::Limit : Step::Io,
               limit ? "too many names, or too deep" : walker.path());
}

}  // namespace caisson::init
