// The first program of the machine: modules, the record, the root, then caisson-init.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/boot/boot.h"

namespace caisson::boot {
namespace {

int the_port = -1;
constexpr int kHigh = 32;  // beyond the numbers that init knows by heart

void say_failed(int reason, const Text& text) {
  if (the_port < 0) return;
  struct {
    wire::FrameHeader header;
    wire::FailedBody body;
    char text[wire::kFailureTextMax];
  } frame{};
  const size_t size = text.size() < sizeof(frame.text) ? text.size() : sizeof(frame.text);
  frame.header.size = static_cast<uint32_t>(sizeof(frame.body) + size);
  frame.header.kind = static_cast<uint16_t>(wire::Kind::Failed);
  frame.body.sys_errno = reason;
  frame.body.step = static_cast<uint32_t>(wire::Step::Io);
  frame.body.text_size = static_cast<uint32_t>(size);
  memcpy(frame.text, text.get(), size);
  (void)write(the_port, &frame, sizeof(frame.header) + frame.header.size);
}

void mount_basics() {
  umask(0);
  constexpr const char* kFolders[] = {"/dev", "/proc", "/sys", "/groups", kImage, kUpper, kRoot};
  for (const char* folder : kFolders) (void)mkdir(folder, 0755);
  require(mount("dev", "/dev", "devtmpfs", MS_NOSUID | MS_NOEXEC, nullptr) == 0 || errno == EBUSY,
          "mount", "/dev");
  require(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0, "mount",
          "/proc");
  require(mount("sys", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0, "mount",
          "/sys");
}

void read_record(Record& record) {
  static uint8_t bytes[wire::kBootBytesMax + 1];
  const int file = open(kRecord, O_RDONLY | O_CLOEXEC);
  require(file >= 0, "open", kRecord);
  const ssize_t got = read(file, bytes, sizeof(bytes));
  require(got >= 0, "read", kRecord);
  close(file);
  (void)unlink(kRecord);
  errno = EINVAL;
  require(parse_record(wire::Bytes{bytes, static_cast<size_t>(got)}, record), "understand",
          kRecord);
  explicit_bzero(bytes + offsetof(wire::BootRecord, seed), sizeof(record.body.seed));
}

// What is behind the root stays empty: nobody can get there, and it was memory.
void switch_root() {
  (void)unlink("/init");
  (void)unlink(kInit);
  (void)unlink(kModuleOrder);
  require(chdir(kRoot) == 0 && mount(".", "/", nullptr, MS_MOVE, nullptr) == 0 &&
              chroot(".") == 0 && chdir("/") == 0,
          "enter the root");
}

// Numbers 0…2 and those that init knows by heart; everything else closes with the exec.
void place_descriptors(const Groups& groups) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  require(null >= 0, "open", "/dev/null");
  const int port = fcntl(the_port, F_DUPFD_CLOEXEC, kHigh);
  const int nothing = fcntl(null, F_DUPFD_CLOEXEC, kHigh);
  const int directory = fcntl(groups.directory, F_DUPFD_CLOEXEC, kHigh);
  const int events = fcntl(groups.events, F_DUPFD_CLOEXEC, kHigh);
  require(port >= 0 && nothing >= 0 && directory >= 0 && events >= 0, "move descriptors");
  const bool placed = dup2(port, 0) == 0 && dup2(port, 1) == 1 && dup2(nothing, 2) == 2 &&
                      dup2(directory, wire::kFdCgroup) == wire::kFdCgroup &&
                      dup2(events, wire::kFdOom) == wire::kFdOom;
  require(placed, "place descriptors");
  for (int fd = 3; fd < kHigh; ++fd) {
    if (fd != wire::kFdCgroup && fd != wire::kFdOom) (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  the_port = port;
}

[[noreturn]] void run() {
  mount_basics();
  load_modules();
  the_port = open_port();
  static Record record;
  read_record(record);
  mix_seed(record.body.seed);
  explicit_bzero(record.body.seed, sizeof(record.body.seed));
  make_root(record);
  mask_proc();
  bring_up_loopback();
  harden_kernel();
  Text hostname;
  hostname.add(record.hostname);
  require(syscall(SYS_sethostname, hostname.get(), hostname.size()) == 0, "name the machine");
  const int program = open(kInit, O_RDONLY | O_CLOEXEC);
  const int init = fcntl(program, F_DUPFD_CLOEXEC, kHigh);
  require(program >= 0 && init >= 0, "open", kInit);
  keep_clock();
  const Groups groups = make_group(record.body.processes);
  switch_root();
  place_descriptors(groups);
  drop_privileges();
  char name[] = "caisson-init";
  char how[] = "carried";
  char where[] = "port";
  char* argv[] = {name, how, where, nullptr};
  char* envp[] = {nullptr};
  (void)syscall(SYS_execveat, init, "", argv, envp, AT_EMPTY_PATH);
  fail("start", kInit);
}

}  // namespace

void fail(const char* what, const char* detail) {
  const int reason = errno;
  Text text;
  text.add("boot: ").add(what).add(" ").add(detail).add(": ").add(strerror(reason));
  const int log = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
  if (log >= 0) (void)write(log, text.get(), text.size());
  say_failed(reason, text);
  (void)reboot(RB_AUTOBOOT);  // the monitor ends instead
  for (;;) pause();
}

void require(bool worked, const char* what, const char* detail) {
  if (!worked) fail(what, detail);
}

void put_file(const char* path, const char* text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  (void)write(file, text, strlen(text) + (*text == '\0' ? 1 : 0));
  close(file);
}

}  // namespace caisson::boot

int main() { caisson::boot::run(); }
