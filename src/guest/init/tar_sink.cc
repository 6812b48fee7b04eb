#include "guest/init/tar_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "guest/init/sys.h"

namespace caisson::init {

using wire::Step;

namespace {

// Without O_NONBLOCK a fifo that took the file's place would wait for its writer.
constexpr int kHow = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

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

// The file gets its mode back before anything else is done with it. A guest who swaps the name in
// between has only his own files opened, by his own rights.
int open_closed_file(int folder, const char* name) {
  int file = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  struct stat info{};
  const bool regular = file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  int fd = -1;
  int failed = EACCES;
  if (regular && chmod_fd(file, (info.st_mode | S_IRUSR) & 07777U) == 0) {
    fd = openat(folder, name, kHow);
    failed = errno;
    (void)chmod_fd(file, info.st_mode & 07777U);
  }
  close_fd(file);
  errno = failed;
  return fd;
}

}  // namespace

void TarSink::put(const void* bytes, size_t size) {
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

void TarSink::pad() {
  static const uint8_t kZeros[kTarBlock] = {};
  const size_t beyond = static_cast<size_t>(total() % kTarBlock);
  if (beyond != 0) put(kZeros, kTarBlock - beyond);
}

void TarSink::flush() {
  channel_.data(sent_, buffer_, held_);
  sent_ += held_;
  held_ = 0;
}

void TarSink::end() {
  static const uint8_t kZeros[2 * kTarBlock] = {};
  put(kZeros, sizeof(kZeros));
  flush();
}

void TarSink::put_headers(const TarItem& item) {
  static uint8_t headers[kTarHeadersMax];
  put(headers, tar_headers(item, headers));
}

void TarSink::put_content(int fd, uint64_t size) {
  static uint8_t buffer[64 * 1024];
  bool ended = false;
  while (size > 0) {
    const size_t wanted = smaller<uint64_t>(size, sizeof(buffer));
    ssize_t got = ended ? 0 : read(fd, buffer, wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) channel_.fail(errno, Step::Io);
    if (got == 0) {
      ended = true;
      memset(buffer, 0, wanted);
      got = static_cast<ssize_t>(wanted);
    }
    put(buffer, static_cast<size_t>(got));
    size -= static_cast<uint64_t>(got);
  }
  pad();
}

long TarSink::put_file(int folder, const char* name, const char* archived, bool open_up) {
  int fd = openat(folder, name, kHow);
  if (fd < 0 && errno == EACCES && open_up) fd = open_closed_file(folder, name);
  if (fd < 0) return -errno;
  struct stat info{};
  const bool regular = !on_proc(fd) && fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (regular) {
    const TarItem item = item_of(info, archived, "", '0');
    put_headers(item);
    put_content(fd, item.size);
  }
  close_fd(fd);
  return regular ? 1 : 0;
}

bool TarSink::put_link(const struct stat& info, int folder, const char* name,
                       const char* archived) {
  static char target[wire::kPathMax + 1];
  const ssize_t size = readlinkat(folder, name, target, wire::kPathMax);
  if (size < 0) return false;
  target[size] = '\0';
  put_headers(item_of(info, archived, target, '2'));
  return true;
}

void TarSink::put_folder(const struct stat& info, const char* archived) {
  put_headers(item_of(info, archived, "", '5'));
}

}  // namespace caisson::init
