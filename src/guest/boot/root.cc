// The root of the sandbox, below kRoot: the image as the lower side of an overlay, the disk as the
// upper one, and places of the disk for what can be written beside it. Targets are opened through
// no link: what lies in an image is not ours.
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "guest/boot/boot.h"

namespace caisson::boot {
namespace {

constexpr char kTrustFile[] = "etc/ssl/certs/ca-certificates.crt";
constexpr size_t kTrustBundleMax = 4UL << 20U;

int open_beneath(int folder, const char* path, uint64_t flags) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(syscall(SYS_openat2, folder, path, &how, sizeof(how)));
}

// The folder `path` below `folder`, made with all its parents.
int make_folder(int folder, wire::Bytes path, mode_t mode) {
  int at = open_beneath(folder, ".", O_PATH | O_DIRECTORY);
  require(at >= 0, "open a folder");
  const uint8_t* end = path.data + path.size;
  for (const uint8_t* part = path.data; part < end;) {
    const void* found = memchr(part, '/', static_cast<size_t>(end - part));
    const uint8_t* stop = found != nullptr ? static_cast<const uint8_t*>(found) : end;
    if (stop != part) {
      Text name;
      name.add(wire::Bytes{part, static_cast<size_t>(stop - part)});
      require(mkdirat(at, name.get(), mode) == 0 || errno == EEXIST, "make a folder", name.get());
      const int next = open_beneath(at, name.get(), O_PATH | O_DIRECTORY);
      require(next >= 0, "open a folder; it may be a link", name.get());
      close(at);
      at = next;
    }
    part = stop + 1;
  }
  return at;
}

int make_folder(int folder, const char* path, mode_t mode) {
  return make_folder(folder, wire::Bytes{reinterpret_cast<const uint8_t*>(path), strlen(path)},
                     mode);
}

// Where procfs shows an open file: a mount on it needs no second walk.
Text handle(int fd) {
  Text path;
  path.add("/proc/self/fd/").add(static_cast<unsigned long>(fd));
  return path;
}

void mount_at(int target, const char* what, const char* type, unsigned long flags,
              const char* options) {
  const Text path = handle(target);
  require(mount(what, path.get(), type, flags, options) == 0, "mount", type);
}

void bind(int source, int target) {
  const Text from = handle(source);
  const Text to = handle(target);
  require(mount(from.get(), to.get(), nullptr, MS_BIND, nullptr) == 0, "show a folder");
}

void restrict_mount(const char* path, unsigned long flags) {
  require(mount(nullptr, path, nullptr, MS_BIND | MS_REMOUNT | flags, nullptr) == 0,
          "restrict a mount", path);
}

void own(int folder, const Record& record) {
  require(fchownat(folder, "", record.body.uid, record.body.gid, AT_EMPTY_PATH) == 0,
          "own a folder");
}

void mount_disks() {
  char path[32];
  disk_named(wire::kBootRootDisk, path);
  require(mount(path, kImage, "erofs", MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) == 0, "mount",
          wire::kBootRootDisk);
  disk_named(wire::kBootUpperDisk, path);
  require(mount(path, kUpper, "ext4", MS_NOSUID | MS_NODEV | MS_NOATIME, "noinit_itable") == 0,
          "mount", wire::kBootUpperDisk);
}

void copy_bundle(int out, int image) {
  const int in = open_beneath(image, kTrustFile, O_RDONLY | O_NONBLOCK);
  if (in < 0) return;
  struct stat facts{};
  if (fstat(in, &facts) != 0 || !S_ISREG(facts.st_mode)) return;
  static char piece[64 * 1024];
  char last = '\n';
  for (size_t sum = 0; sum < kTrustBundleMax;) {
    const ssize_t got = read(in, piece, sizeof(piece));
    if (got <= 0) break;
    require(write(out, piece, static_cast<size_t>(got)) == got, "write", kTrustFile);
    sum += static_cast<size_t>(got);
    last = piece[got - 1];
  }
  if (last != '\n') require(write(out, "\n", 1) == 1, "write", kTrustFile);
  close(in);
}

// The image's authorities and one more, in the layer above the image: also a root that cannot be
// written has it.
void add_trust(int layer, const Record& record) {
  if (record.trust.size == 0) return;
  close(make_folder(layer, "etc/ssl/certs", 0755));
  const int image = open(kImage, O_PATH | O_DIRECTORY | O_CLOEXEC);
  const int out = open_beneath(layer, "etc/ssl/certs", O_PATH | O_DIRECTORY);
  require(image >= 0 && out >= 0, "open", kTrustFile);
  const int file = openat(out, "ca-certificates.crt",
                          O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
  require(file >= 0, "make", kTrustFile);
  copy_bundle(file, image);
  require(
      write(file, record.trust.data, record.trust.size) == static_cast<ssize_t>(record.trust.size),
      "write", kTrustFile);
  close(file);
  close(out);
  close(image);
}

void mount_overlay(int upper, const Record& record) {
  const int layer = make_folder(upper, "root", 0755);
  close(make_folder(upper, "work", 0700));
  const int workspace = make_folder(layer, "workspace", 0755);
  own(workspace, record);
  close(workspace);
  add_trust(layer, record);
  close(layer);
  require(mount("overlay", kRoot, "overlay", MS_NOSUID | MS_NODEV,
                "lowerdir=/image,upperdir=/upper/root,workdir=/upper/work") == 0,
          "mount", "the overlay");
}

struct Node {
  const char* name;
  unsigned major;
  unsigned minor;
};
constexpr Node kNodes[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                           {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
constexpr const char* kLinks[][2] = {{"fd", "/proc/self/fd"},
                                     {"stdin", "/proc/self/fd/0"},
                                     {"stdout", "/proc/self/fd/1"},
                                     {"stderr", "/proc/self/fd/2"},
                                     {"ptmx", "pts/ptmx"}};

void make_devices(int root) {
  const int target = make_folder(root, "dev", 0755);
  mount_at(target, "dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755,size=64k,nr_inodes=32");
  close(target);
  const int devices = open_beneath(root, "dev", O_PATH | O_DIRECTORY);
  require(devices >= 0, "open", "/dev");
  for (const Node& node : kNodes) {
    require(mknodat(devices, node.name, S_IFCHR | 0666, makedev(node.major, node.minor)) == 0,
            "make a device", node.name);
  }
  for (const auto& link : kLinks)
    require(symlinkat(link[1], devices, link[0]) == 0, "link a device", link[0]);
  const int terminals = make_folder(devices, "pts", 0755);
  mount_at(terminals, "devpts", "devpts", MS_NOSUID | MS_NOEXEC,
           "newinstance,gid=5,mode=0620,ptmxmode=0666,max=256");
  close(terminals);
  close(make_folder(devices, "shm", 01777));
  close(devices);
  restrict_mount("/root/dev", MS_RDONLY | MS_NOSUID | MS_NOEXEC);
}

// A place of the disk, shown at `at`.
void show(int root, int upper, const char* name, const char* at, const Record& record) {
  const int source = make_folder(upper, name, 01777);
  const int target = make_folder(root, at, 0755);
  bind(source, target);
  close(source);
  close(target);
  Text path;
  path.add(kRoot).add("/").add(at);
  const bool read_only =
      record.has(wire::kBootReadOnlyScratch) && !record.has(wire::kBootWritableRoot);
  restrict_mount(path.get(), MS_NOSUID | MS_NODEV | (read_only ? MS_RDONLY : 0UL));
}

// Inside the root, before it is closed: each is a mount of its own, which stays writable.
void make_writable(int root, wire::Bytes path, const Record& record) {
  const int folder = make_folder(root, path, 0755);
  own(folder, record);
  bind(folder, folder);
  close(folder);
}

void make_writable_places(int root, const Record& record) {
  if (record.has(wire::kBootOwnWorkspace)) {
    const int workspace = make_folder(root, "workspace", 0755);
    bind(workspace, workspace);
    close(workspace);
  }
  wire::Reader paths(record.writable);
  for (uint32_t i = 0; i < record.body.writable_count; ++i) {
    wire::Bytes path;
    if (paths.take_string(path)) make_writable(root, path, record);
  }
  wire::Reader aliases(record.aliases);
  for (uint32_t i = 0; i < record.body.alias_count; ++i) {
    wire::Bytes at;
    wire::Bytes of;
    if (!aliases.take_string(at) || !aliases.take_string(of)) return;
    const int source = make_folder(root, of, 0755);
    const int target = make_folder(root, at, 0755);
    bind(source, target);
    close(source);
    close(target);
  }
}

}  // namespace

void make_root(const Record& record) {
  umask(0);
  mount_disks();
  const int upper = open(kUpper, O_PATH | O_DIRECTORY | O_CLOEXEC);
  require(upper >= 0, "open", kUpper);
  mount_overlay(upper, record);
  const int root = open(kRoot, O_PATH | O_DIRECTORY | O_CLOEXEC);
  require(root >= 0, "open", kRoot);
  close(make_folder(root, "sys", 0555));
  const int proc = make_folder(root, "proc", 0555);
  mount_at(proc, "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  close(proc);
  make_devices(root);
  show(root, upper, "tmp", "tmp", record);
  show(root, upper, "run", "run", record);
  show(root, upper, "shm", "dev/shm", record);
  make_writable_places(root, record);
  if (!record.has(wire::kBootWritableRoot)) restrict_mount(kRoot, MS_RDONLY | MS_NOSUID | MS_NODEV);
  close(root);
  close(upper);
}

}  // namespace caisson::boot
