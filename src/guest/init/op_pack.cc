// Pack: the files, links and folders that the host names, as a tar stream. Those that are not there
// are left out, and so is what may not be read and what is no file, link or folder. A folder is its
// header alone. No name leads out: below.h opens each folder on the way.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/init/below.h"
#include "guest/init/op_child.h"
#include "guest/init/op_strings.h"
#include "guest/init/tar_parser.h"
#include "guest/init/tar_sink.h"

namespace caisson::init {

using wire::Step;

namespace {

constexpr uint64_t kEntriesMax = 1000000;
constexpr uint32_t kSearchNeeds = S_IXUSR;

// The name as it stands in the archive, room for a folder's slash behind it. False for what must
// not be: "..", an absolute one, the folder itself.
bool plain_name(const char* name, char out[wire::kPathMax + 2]) {
  return tar_safe_name(name, out) && out[0] != '\0';
}

bool pack_entry(TarSink& sink, int folder, const char* name, char* archived, bool open_up) {
  struct stat info{};
  if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
  if (S_ISREG(info.st_mode)) return sink.put_file(folder, name, archived, open_up) > 0;
  if (S_ISLNK(info.st_mode)) return sink.put_link(info, folder, name, archived);
  if (!S_ISDIR(info.st_mode)) return false;
  const size_t size = strlen(archived);
  char slashed[wire::kPathMax + 2];
  memcpy(slashed, archived, size);
  memcpy(slashed + size, "/", 2);
  sink.put_folder(info, slashed);
  return true;
}

}  // namespace

void op_pack(OpChannel& channel, const OpRequest& request) {
  const int root = open(request.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) channel.fail(errno, Step::Resolve);
  static OpStrings names(channel, wire::kNamesBytesMax);
  static char archived[wire::kPathMax + 2];
  uint64_t count = 0;
  // Before the first byte: whoever asks for what must not be gets nothing.
  for (const char* name = names.next(); name != nullptr; name = names.next()) {
    if (!plain_name(name, archived)) channel.fail(EINVAL, Step::Request, name);
    if (++count > kEntriesMax) channel.fail(EOVERFLOW, Step::Limit, "too many names");
  }
  names.rewind();
  count = 0;
  const bool open_up = (request.body.flags & wire::kOpOpenUp) != 0;
  static Below below(root);
  if (open_up) below.open_up(kSearchNeeds);
  static TarSink sink(channel);
  for (const char* name = names.next(); name != nullptr; name = names.next()) {
    if (!plain_name(name, archived)) continue;
    const char* slash = strrchr(archived, '/');
    const size_t size = slash != nullptr ? static_cast<size_t>(slash - archived) : 0;
    const int folder = below.enter(archived, size, false);
    if (folder < 0) continue;
    const char* last = slash != nullptr ? slash + 1 : archived;
    if (pack_entry(sink, folder, last, archived, open_up)) ++count;
  }
  sink.end();
  channel.done(sink.total(), count);
}

}  // namespace caisson::init
