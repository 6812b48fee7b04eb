#include "guest/init/group.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/init/sys.h"

namespace caisson::init {
namespace {

constexpr size_t kSmallFileMax = 1024;
// Who waits for a disk stands still when that has answered.
constexpr uint64_t kFreezeUs = 1'000'000;
constexpr int kLookAgainMs = 5;  // should the kernel's notice be lost

// "e" and the number: unique in the sandbox's group, which only init and the launcher write.
void name_of(int index, char name[8]) {
  char digits[4];
  int count = 0;
  do {
    digits[count++] = static_cast<char>('0' + index % 10);
    index /= 10;
  } while (index != 0);
  *name++ = 'e';
  while (count > 0) *name++ = digits[--count];
  *name = '\0';
}

bool read_small(int fd, char text[kSmallFileMax]) {
  const ssize_t got = pread(fd, text, kSmallFileMax - 1, 0);
  text[got > 0 ? got : 0] = '\0';
  return got > 0;
}

}  // namespace

uint64_t field_of(const char* text, const char* key) {
  const size_t key_size = strlen(key);
  for (const char* line = text; line != nullptr && *line != '\0';) {
    if (strncmp(line, key, key_size) == 0 && line[key_size] == ' ') {
      uint64_t value = 0;
      for (const char* at = line + key_size + 1; *at >= '0' && *at <= '9'; ++at) {
        value = value * 10 + static_cast<uint64_t>(*at - '0');
      }
      return value;
    }
    line = strchr(line, '\n');
    if (line != nullptr) ++line;
  }
  return 0;
}

bool GroupPool::open(bool present) {
  present_ = present;
  return !present || groups_.open();
}

bool GroupPool::make(int index) {
  char name[8];
  name_of(index, name);
  if (mkdirat(wire::kFdCgroup, name, 0755) != 0 && errno != EEXIST) return false;
  Group& group = at(index);
  group.cpu_last_us = 0;
  group.directory = openat(wire::kFdCgroup, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (group.directory < 0) return false;
  group.events = openat(group.directory, "cgroup.events", O_RDONLY | O_CLOEXEC);
  group.cpu = openat(group.directory, "cpu.stat", O_RDONLY | O_CLOEXEC);
  if (group.events < 0 || group.cpu < 0) {
    close_fd(group.directory);
    close_fd(group.events);
    close_fd(group.cpu);
    return false;
  }
  read_cpu(index);  // a group that an earlier init left has a past
  group.killed = false;
  group.state = State::Free;
  return true;
}

int GroupPool::take(int index) {
  at(index).state = State::Used;
  at(index).cpu_base_us = at(index).cpu_last_us;
  return index;
}

// A killed group goes; whether its slot is ready for a new one.
bool GroupPool::renew(int index) {
  Group& group = at(index);
  if (!group.killed) return true;
  char name[8];
  name_of(index, name);
  if (unlinkat(wire::kFdCgroup, name, AT_REMOVEDIR) != 0) return false;
  close_fd(group.directory);
  close_fd(group.events);
  close_fd(group.cpu);
  group.killed = false;
  group.state = State::Absent;
  return true;
}

int GroupPool::acquire() {
  for (int i = 0; i < used_max_; ++i) {
    if (at(i).state == State::Free) return take(i);
  }
  for (int i = 0; i < used_max_; ++i) {
    if (at(i).state == State::Lingering && !populated(i) && renew(i) &&
        at(i).state != State::Absent) {
      read_cpu(i);  // what lingered went on working
      return take(i);
    }
    if (at(i).state == State::Absent) return make(i) ? take(i) : kNone;
  }
  if (used_max_ == static_cast<int>(wire::kProcessesMax)) {
    errno = EAGAIN;
    return kNone;
  }
  if (!make(used_max_)) return kNone;
  return take(used_max_++);
}

void GroupPool::release(int group) {
  at(group).state = State::Lingering;
  if (populated(group) || !renew(group)) return;
  if (at(group).state != State::Absent) at(group).state = State::Free;
}

bool GroupPool::populated(int group) {
  char text[kSmallFileMax];
  return read_small(at(group).events, text) && field_of(text, "populated") != 0;
}

bool GroupPool::kill(int group) {
  int fd = openat(at(group).directory, "cgroup.kill", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool killed = write(fd, "1", 1) == 1;
  at(group).killed = at(group).killed || killed;
  close_fd(fd);
  return killed;
}

// Those of whose process nobody speaks any more, too.
void GroupPool::kill_all() {
  for (int i = 0; i < used_max_; ++i) {
    if (runs(i)) kill(i);
  }
}

bool GroupPool::runs(int index) {
  return at(index).state == State::Used || at(index).state == State::Lingering;
}

void GroupPool::set_frozen(int index, bool frozen) {
  int fd = openat(at(index).directory, "cgroup.freeze", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) (void)write(fd, frozen ? "1" : "0", 1);
  close_fd(fd);
}

bool GroupPool::stands_still(int index, uint64_t deadline_us) {
  for (;;) {
    char text[kSmallFileMax];
    if (!read_small(at(index).events, text)) return false;
    if (field_of(text, "frozen") != 0 || field_of(text, "populated") == 0) return true;
    if (now_us() >= deadline_us) return false;
    pollfd change{at(index).events, POLLPRI, 0};
    (void)poll(&change, 1, kLookAgainMs);
  }
}

// All are told before the first one is waited for.
bool GroupPool::freeze_all() {
  if (!present_) return true;
  frozen_ = true;
  for (int i = 0; i < used_max_; ++i) {
    if (runs(i)) set_frozen(i, true);
  }
  const uint64_t deadline = now_us() + kFreezeUs;
  for (int i = 0; i < used_max_; ++i) {
    if (!runs(i) || stands_still(i, deadline)) continue;
    thaw_all();
    return false;
  }
  return true;
}

void GroupPool::thaw_all() {
  if (!frozen_) return;
  frozen_ = false;
  for (int i = 0; i < used_max_; ++i) {
    if (at(i).state != State::Absent) set_frozen(i, false);
  }
}

int GroupPool::signal(int group, int number) {
  int fd = openat(at(group).directory, "cgroup.procs", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  int count = 0;
  int pid = 0;
  char text[kSmallFileMax];
  for (ssize_t got = read(fd, text, sizeof(text)); got > 0; got = read(fd, text, sizeof(text))) {
    for (ssize_t i = 0; i < got; ++i) {
      if (text[i] >= '0' && text[i] <= '9') {
        pid = pid * 10 + (text[i] - '0');
        continue;
      }
      // 0 is a process of another pid namespace, 1 is init: neither is a tenant.
      if (pid > 1 && ::kill(pid, number) == 0) ++count;
      pid = 0;
    }
  }
  close_fd(fd);
  return count;
}

uint64_t GroupPool::read_cpu(int index) {
  char text[kSmallFileMax];
  if (read_small(at(index).cpu, text)) at(index).cpu_last_us = field_of(text, "usage_usec");
  return at(index).cpu_last_us;
}

uint64_t GroupPool::cpu_us(int group) {
  const uint64_t total = read_cpu(group);
  return total > at(group).cpu_base_us ? total - at(group).cpu_base_us : 0;
}

}  // namespace caisson::init
