// Modules, the channel and the disks: what the kernel needs before it sees anything.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guest/boot/boot.h"

namespace caisson::boot {
namespace {

constexpr size_t kOrderBytesMax = 4096;
constexpr size_t kNameMax = 64;
// A port appears a moment after its driver: the host is asked first.
constexpr int kLooksMax = 5000;
constexpr long kLookNanoseconds = 2'000'000;

ssize_t read_file(const char* path, char* out, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t got = read(fd, out, size - 1);
  close(fd);
  out[got > 0 ? got : 0] = '\0';
  return got;
}

void load(const char* name, bool may_fail) {
  Text path;
  path.add(kModules).add("/").add(name);
  const int file = open(path.get(), O_RDONLY | O_CLOEXEC);
  const bool loaded = file >= 0 && (syscall(SYS_finit_module, file, "", 0) == 0 || errno == EEXIST);
  require(loaded || may_fail, "load a module", name);
  if (file >= 0) close(file);
  (void)unlink(path.get());  // the initramfs is memory
}

// Whether the first line of `path` is `text`.
bool says(const char* path, const char* text) {
  char line[kNameMax];
  if (read_file(path, line, sizeof(line)) <= 0) return false;
  const size_t size = strcspn(line, "\n");
  return size == strlen(text) && memcmp(line, text, size) == 0;
}

// The entry of `folder` whose file `leaf` says `wanted`; false when there is none yet.
bool find_entry(const char* folder, const char* leaf, const char* wanted, char (&name)[kNameMax]) {
  DIR* entries = opendir(folder);
  if (entries == nullptr) return false;
  bool found = false;
  for (const dirent* entry = readdir(entries); entry != nullptr && !found;
       entry = readdir(entries)) {
    if (entry->d_name[0] == '.' || strlen(entry->d_name) >= sizeof(name)) continue;
    Text path;
    path.add(folder).add("/").add(entry->d_name).add("/").add(leaf);
    if (!says(path.get(), wanted)) continue;
    memcpy(name, entry->d_name, strlen(entry->d_name) + 1);
    found = true;
  }
  closedir(entries);
  return found;
}

void wait_for_entry(const char* folder, const char* leaf, const char* wanted,
                    char (&name)[kNameMax]) {
  for (int looks = 0; looks < kLooksMax; ++looks) {
    if (find_entry(folder, leaf, wanted, name)) return;
    const timespec pause{0, kLookNanoseconds};
    nanosleep(&pause, nullptr);
  }
  errno = ENODEV;
  fail("find a device", wanted);
}

}  // namespace

void load_modules() {
  static char order[kOrderBytesMax];
  require(read_file(kModuleOrder, order, sizeof(order)) >= 0, "read", kModuleOrder);
  for (char* line = order; *line != '\0';) {
    char* end = strchr(line, '\n');
    char* next = end != nullptr ? end + 1 : line + strlen(line);
    if (end != nullptr) *end = '\0';
    const bool may_fail = *line == '-';
    if (may_fail) ++line;
    if (*line != '\0') load(line, may_fail);
    line = next;
  }
}

int open_port() {
  char name[kNameMax];
  wait_for_entry("/sys/class/virtio-ports", "name", wire::kBootPort, name);
  Text path;
  path.add("/dev/").add(name);
  const int port = open(path.get(), O_RDWR | O_CLOEXEC);
  require(port >= 0, "open", path.get());
  return port;
}

void disk_named(const char* serial, char (&path)[32]) {
  char name[kNameMax];
  wait_for_entry("/sys/block", "serial", serial, name);
  Text text;
  text.add("/dev/").add(name);
  require(text.size() < sizeof(path), "name a disk", name);
  memcpy(path, text.get(), text.size() + 1);
}

}  // namespace caisson::boot
