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
#include "guest/init/tar_format.h"
#include "guest/init/walker.h"

namespace caisson::init {

using wire::Step;

namespace {

constexpr uint64_t kEntriesMax = 1000000;

// Collects small pieces into full frames.
class TarSink {
 public:
  explicit TarSink(OpChannel& channel) : channel_(channel) {}

  void put(const void* bytes, size_t size) {
    const uint8_t* from = static_cast<const uint8_t*>(bytes);
    while (size > 0) {
      const size_t part = smaller(size, sizeof(buffer_) - held_);
      memcpy(buffer_ + held_, from, part);
      held_ += part;
      from += part;
      size -= part;
      if (held_ == sizeof(buffer_)) flush();
    }
  }
  void pad() {
    static const uint8_t kZeros[kTarBlock] = {};
    const size_t beyond = static_cast<size_t>((sent_ + held_) % kTarBlock);
    if (beyond != 0) put(kZeros, kTarBlock - beyond);
  }
  void end() {
    static const uint8_t kZeros[2 * kTarBlock] = {};
    put(kZeros, sizeof(kZeros));
    flush();
  }
  [[nodiscard]] uint64_t total() const { return sent_ + held_; }

 private:
  void flush() {
    channel_.data(sent_, buffer_, held_);
    sent_ += held_;
    held_ = 0;
  }
  OpChannel& channel_;
  uint64_t sent_ = 0;
  size_t held_ = 0;
  uint8_t buffer_[wire::kDataMax];
};

TarItem item_of(const struct stat& info, const char* name, const char* link, char type) {
  TarItem item{};
  item.name = name;
  item.link = link;
  item.type = type;
  item.mode = info.st_mode & 0777U;
  item.uid = info.st_uid;
  item.gid = info.st_gid;
  item.size = type == '0' ? static_cast<uint64_t>(info.st_size) : 0;
  item.mtime_s = info.st_mtim.tv_sec;
  item.mtime_ns = static_cast<uint32_t>(info.st_mtim.tv_nsec);
  return item;
}

void put_headers(TarSink& sink, const TarItem& item) {
  static uint8_t headers[kTarHeadersMax];
  sink.put(headers, tar_headers(item, headers));
}

// The header promised a size: a file that shrinks meanwhile is filled with zeros, one that grows is
// cut.
void put_content(OpChannel& channel, TarSink& sink, int fd, uint64_t size) {
  static uint8_t buffer[64 * 1024];
  bool ended = false;
  while (size > 0) {
    const size_t wanted = smaller<uint64_t>(size, sizeof(buffer));
    ssize_t got = ended ? 0 : read(fd, buffer, wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) channel.fail(errno, Step::Io);
    if (got == 0) {
      ended = true;
      memset(buffer, 0, wanted);
      got = static_cast<ssize_t>(wanted);
    }
    sink.put(buffer, static_cast<size_t>(got));
    size -= static_cast<uint64_t>(got);
  }
  sink.pad();
}

// False when the file went, or became something else: it is then left out.
bool put_file(OpChannel& channel, TarSink& sink, int folder, const char* name,
              const char* archived) {
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0 && errno != ENOENT && errno != ELOOP) channel.fail(errno, Step::Io, archived);
  if (fd < 0) return false;
  struct stat info{};
  const bool regular = !on_proc(fd) && fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (regular) {
    const TarItem item = item_of(info, archived, "", '0');
    put_headers(sink, item);
    put_content(channel, sink, fd, item.size);
  }
  close_fd(fd);
  return regular;
}

bool put_link(TarSink& sink, const struct stat& info, int folder, const char* name,
              const char* archived) {
  static char target[wire::kPathMax + 1];
  const ssize_t size = readlinkat(folder, name, target, wire::kPathMax);
  if (size < 0) return false;
  target[size] = '\0';
  put_headers(sink, item_of(info, archived, target, '2'));
  return true;
}

// One entry of the walk. True when something was written.
bool put_entry(OpChannel& channel, TarSink& sink, Walker& walker) {
  static char archived[wire::kPathMax + 4];
  const size_t size = strlen(walker.path());
  if (size + 3 > wire::kPathMax) channel.fail(ENAMETOOLONG, Step::Archive, walker.path());
  memcpy(archived, "./", 2);
  memcpy(archived + 2, walker.path(), size + 1);
  const mode_t mode = walker.info().st_mode;
  if (S_ISREG(mode)) return put_file(channel, sink, walker.folder(), walker.name(), archived);
  if (S_ISLNK(mode)) return put_link(sink, walker.info(), walker.folder(), walker.name(), archived);
  if (!S_ISDIR(mode)) return false;
  memcpy(archived + 2 + size, "/", 2);
  put_headers(sink, item_of(walker.info(), archived, "", '5'));
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
    if (!put_file(channel, sink, folder, name, name)) channel.fail(ENOENT, Step::Resolve);
    sink.end();
    channel.done(sink.total(), 1);
  }
  if (!S_ISDIR(root.st_mode)) channel.fail(EINVAL, Step::Resolve, "not a file or folder");
  if (!walker.open(request.path)) channel.fail(errno, Step::Resolve);
  put_headers(sink, item_of(root, "./", "", '5'));
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
