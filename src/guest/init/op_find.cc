// Find: what lies below a folder and matches a pattern. Folders where nothing can match any more
// are not entered, and neither are those to be pruned, which are left out themselves.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/init/glob.h"
#include "guest/init/name_walker.h"
#include "guest/init/op_child.h"
#include "guest/init/op_strings.h"
#include "guest/init/search.h"

namespace caisson::init {

using wire::Step;

namespace {

constexpr uint64_t kEntriesMax = 1000000;

// False when it went meanwhile.
bool tell(OpChannel& channel, const NameWalker& walker) {
  struct stat info{};
  if (fstatat(walker.folder(), walker.name(), &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
  static char target[wire::kPathMax + 1];
  ssize_t size = 0;
  if (S_ISLNK(info.st_mode))
    size = readlinkat(walker.folder(), walker.name(), target, wire::kPathMax);
  target[size > 0 ? size : 0] = '\0';
  channel.entry(info, walker.path(), target, walker.depth());
  return true;
}

}  // namespace

void op_find(OpChannel& channel, const OpRequest& request) {
  const int folder = open_search(channel, request.path, 0);
  static OpStrings strings(channel, wire::kPatternBytesMax);
  static Glob glob;
  const char* pattern = strings.next();
  if (pattern == nullptr) channel.fail(EINVAL, Step::Request);
  if (!glob.parse(pattern)) channel.fail(E2BIG, Step::Pattern, "too many parts");
  static Pruning pruning(channel, strings);

  static NameWalker walker;
  static Glob::State states[NameWalker::kDepthMax + 1];
  states[0] = glob.begin();
  if (!walker.open(folder)) fail_walk(channel, walker);
  uint64_t count = 0;
  for (;;) {
    const NameWalker::Step step = walker.next();
    if (step == NameWalker::Step::Failed) fail_walk(channel, walker);
    if (step == NameWalker::Step::End) break;
    const bool is_folder = walker.type() == DT_DIR;
    if (is_folder && pruning.covers(walker.name())) continue;
    bool matches = false;
    const uint32_t depth = walker.depth();
    const Glob::State next = glob.step(states[depth], walker.name(), matches);
    if (matches && tell(channel, walker) && ++count > kEntriesMax)
      channel.fail(EOVERFLOW, Step::Limit, "too many entries");
    if (!is_folder || next == 0) continue;
    states[depth + 1] = next;
    if (!walker.descend() && !may_be_skipped(walker.error())) fail_walk(channel, walker);
  }
  channel.done(0, count);
}

}  // namespace caisson::init
