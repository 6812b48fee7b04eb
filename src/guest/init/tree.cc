#include "guest/init/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/init/sys.h"

namespace caisson::init {
namespace {

constexpr int kRoundsMax = 16;
constexpr int kTreeProcessesMax = 4096;  // per round; a larger tree takes more rounds

struct Seen {
  int pid;
  int parent;
  int session;
  char state;
  bool member;
};

int number_at(const char*& at) {
  int value = 0;
  while (*at == ' ') ++at;
  for (; *at >= '0' && *at <= '9'; ++at) value = value * 10 + (*at - '0');
  return value;
}

// "pid (name) state parent group session …": the name may hold anything, so it ends at the last
// parenthesis.
bool read_stat(int proc, const char* name, Seen& out) {
  char path[32];
  const size_t size = strnlen(name, 16);
  memcpy(path, name, size);
  memcpy(path + size, "/stat", 6);
  int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[512];
  const ssize_t got = read(fd, text, sizeof(text) - 1);
  close_fd(fd);
  if (got <= 0) return false;
  text[got] = '\0';
  const char* at = strrchr(text, ')');
  if (at == nullptr || at[1] != ' ' || at[2] == '\0') return false;
  const char* digits = name;
  out.pid = number_at(digits);
  out.state = at[2];
  at += 3;
  out.parent = number_at(at);
  number_at(at);  // process group
  out.session = number_at(at);
  out.member = false;
  return true;
}

int read_all(Seen out[kTreeProcessesMax]) {
  int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) return 0;
  int count = 0;
  alignas(8) char buffer[4096];
  for (long got = read_folder(proc, buffer, sizeof(buffer)); got > 0;
       got = read_folder(proc, buffer, sizeof(buffer))) {
    for (long at = 0; at < got;) {
      uint16_t record = 0;
      memcpy(&record, buffer + at + 16, sizeof(record));
      const char* name = buffer + at + 19;
      at += record;
      if (*name < '1' || *name > '9' || count == kTreeProcessesMax) continue;
      if (read_stat(proc, name, out[count])) ++count;
    }
  }
  close_fd(proc);
  return count;
}

// Marks the tree: first by session, then children of members until nothing is added.
void mark(Seen* seen, int count, int leader, bool strays) {
  const int own_session = static_cast<int>(getsid(0));
  for (int i = 0; i < count; ++i) {
    if (seen[i].pid == 1) continue;
    seen[i].member = seen[i].session == leader || seen[i].pid == leader;
    if (strays && seen[i].parent == 1 && seen[i].session != own_session) seen[i].member = true;
  }
  for (bool added = true; added;) {
    added = false;
    for (int i = 0; i < count; ++i) {
      if (seen[i].member || seen[i].pid == 1) continue;
      for (int j = 0; j < count && !seen[i].member; ++j) {
        seen[i].member = seen[j].member && seen[j].pid == seen[i].parent;
      }
      added = added || seen[i].member;
    }
  }
}

int signal_marked(const Seen* seen, int count, int leader, int number) {
  int signalled = 0;
  for (int i = 0; i < count; ++i) {
    if (!seen[i].member || seen[i].state == 'Z' || seen[i].state == 'X') continue;
    if (kill(seen[i].pid, number) == 0 && seen[i].pid != leader) ++signalled;
  }
  return signalled;
}

}  // namespace

int tree_signal(int leader, int number, bool strays) {
  static Seen seen[kTreeProcessesMax];
  if (number != SIGKILL) {
    const int count = read_all(seen);
    mark(seen, count, leader, strays);
    return signal_marked(seen, count, leader, number);
  }
  int total = 0;
  for (int round = 0; round < kRoundsMax; ++round) {
    const int count = read_all(seen);
    mark(seen, count, leader, strays);
    // Stopped first: a tree that forks while it is being killed would outrun the walk.
    signal_marked(seen, count, leader, SIGSTOP);
    const int killed = signal_marked(seen, count, leader, SIGKILL);
    total += killed;
    if (killed == 0) break;
  }
  return total;
}

}  // namespace caisson::init
