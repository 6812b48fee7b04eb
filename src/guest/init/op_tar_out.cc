// TarOut: a file or a folder as a tar stream. Names are relative: the folder's content stands below
// "./", a single file under its own name. Sockets, fifos and devices are left out; hard links come
// as files of their own.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/init/op_child.h"
#include "guest/init/sys.h"
#include "guest/init/tar_sink.h"
#include "guest/init/walker.h"

namespace caisson::init {

using wire::Step;

namespace {

constexpr uint64_t kEntriesMax = 1000000;

// A file that went, or became something else, is left out. One that may not be read is an error.
bool put_file_or_fail(OpChannel& channel, TarSink& sink, int folder, const char* name,
                      const char* archived) {
  const long put = sink.put_file(folder, name, archived, false);
  if (put < 0 && put != -ENOENT && put != -ELOOP)
    channel.fail(static_cast<int>(-put), Step::Io, archived);
  return put > 0;
}

// One entry of the walk. True when something was written.
bool put_entry(OpChannel& channel, TarSink& sink, Walker& walker) {
  static char archived[wire::kPathMax + 4];
  const size_t size = strlen(walker.path());
  if (size + 3 > wire::kPathMax) channel.fail(ENAMETOOLONG, Step::Archive, walker.path());
  memcpy(archived, "./", 2);
  memcpy(archived + 2, walker.path(), size + 1);
  const mode_t mode = walker.info().st_mode;
  if (S_ISREG(mode))
    return put_file_or_fail(channel, sink, walker.folder(), walker.name(), archived);
  if (S_ISLNK(mode)) return sink.put_link(walker.info(), walker.folder(), walker.name(), archived);
  if (!S_ISDIR(mode)) return false;
  memcpy(archived + 2 + size, "/", 2);
  sink.put_folder(walker.info(), archived);
  if (!walker.descend() && walker.error() != ENOENT) {
    channel.fail(walker.error(), Step::Io, walker.path());
  }
  return true;
}

}  // namespace

void op_tar_out(OpChannel& channel, const OpRequest& request) {
  static TarSink sink(channel);
  static Walker walker;
  struct stat root{};
  if (stat(request.path, &root) != 0) channel.fail(errno, Step::Resolve);
  if (S_ISREG(root.st_mode)) {
    static char parent[wire::kPathMax + 1];
    const char* name = split_path(request.path, parent);
    if (name == nullptr) channel.fail(EINVAL, Step::Resolve);
    int folder = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) channel.fail(errno, Step::Resolve);
    if (!put_file_or_fail(channel, sink, folder, name, name)) channel.fail(ENOENT, Step::Resolve);
    sink.end();
    channel.done(sink.total(), 1);
  }
  if (!S_ISDIR(root.st_mode)) channel.fail(EINVAL, Step::Resolve, "not a file or folder");
  if (!walker.open(request.path)) channel.fail(errno, Step::Resolve);
  sink.put_folder(root, "./");
  uint64_t count = 1;
  for (Walker::Step step = walker.next(); step != Walker::Step::End; step = walker.next()) {
    if (step == Walker::Step::Failed) channel.fail(walker.error(), Step::Io, walker.path());
    if (step == Walker::Step::Leave) continue;
    if (put_entry(channel, sink, walker) && ++count > kEntriesMax) {
      channel.fail(EOVERFLOW, Step::Limit, "too many entries");
    }
  }
  sink.end();
  channel.done(sink.total(), count);
}

}  // namespace caisson::init
