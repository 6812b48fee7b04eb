// From a Start request to a child on its way to exec. init does not wait for that exec: a sibling
// could stop the child half-way. Only the sole process of a sandbox has none, and borrows init's
// memory until its exec, which saves copying that. A quiet start learns of a failure when the child
// is reaped, a loud one when its report pipe closes.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "guest/init/birth.h"
#include "guest/init/process.h"
#include "guest/init/sys.h"

namespace caisson::init {

using wire::Kind;
using wire::Mode;
using wire::Step;

struct ProcessTable::Channels {
  int child[3] = {0, 0, 0};  // 0 is the null device
  int input = -1;
  int output[2] = {-1, -1};
  int report[2] = {-1, -1};
  int words[2] = {-1, -1};  // to an attendant
  bool keys = false;        // of a terminal that makes no signals of them

  // The same number may stand for several streams: a terminal, or a merged stderr.
  void close_child() {
    for (int i = 2; i >= 0; --i) {
      const bool again = (i > 0 && child[i] == child[i - 1]);
      if (child[i] > 2 && !again) close(child[i]);
    }
    close_fd(report[1]);
    close_fd(words[1]);
  }
  void close_parent() {
    close_fd(input);
    close_fd(output[0]);
    close_fd(output[1]);
    close_fd(report[0]);
    close_fd(words[0]);
  }
};

namespace {

// argv, env and the working directory as the kernel wants them. Static: a child reads them after
// the fork, and the next Start writes them only when that fork has happened. Packed from the front,
// since each page that was written before a fork costs a copy after it.
class Arguments {
 public:
  void fill(const wire::StartView& view) {
    used_ = 0;
    argv = place<char*>(view.body.argc + 1);
    envp = place<char*>(view.body.envc + 1);
    groups = place<uint32_t>(view.body.group_count);
    if (view.groups.size != 0) memcpy(groups, view.groups.data, view.groups.size);
    cwd = text(view.cwd);
    strings(view.argv, view.body.argc, argv);
    strings(view.env, view.body.envc, envp);
  }

  char** argv;
  char** envp;
  uint32_t* groups;
  char* cwd;

 private:
  template <class T>
  T* place(size_t count) {
    T* at = reinterpret_cast<T*>(bytes_ + used_);
    used_ += (count * sizeof(T) + 7) / 8 * 8;
    return at;
  }
  char* text(wire::Bytes from) {
    char* at = bytes_ + used_;
    memcpy(at, from.data, from.size);
    at[from.size] = '\0';
    used_ += from.size + 1;
    return at;
  }
  void strings(wire::Bytes from, uint32_t count, char** pointers) {
    wire::Reader reader(from);
    for (uint32_t i = 0; i < count; ++i) {
      wire::Bytes one;
      reader.take_string(one);
      pointers[i] = text(one);
    }
    pointers[count] = nullptr;
  }

  // A payload's strings, each with a NUL instead of its size, and a pointer to each.
  static constexpr size_t kBytes =
      wire::kPayloadMax + sizeof(char*) * 2 * (wire::kArgsMax + 2) + 64;
  size_t used_;
  alignas(8) char bytes_[kBytes];
};

// One of those who are not yet at their exec, with what it reads on the way there.
struct Cradle {
  Birth birth;
  Arguments arguments;
};

const char* path_of(char* const* envp) {
  for (; *envp != nullptr; ++envp) {
    if (strncmp(*envp, "PATH=", 5) == 0) return *envp + 5;
  }
  return nullptr;
}

bool set_nonblocking(int fd) { return fcntl(fd, F_SETFL, O_NONBLOCK) == 0; }

// A pipe whose `ours` end does not block; the child's end does, as programs expect.
bool open_pipe(int& ours, int& theirs, bool ours_writes) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  ours = ends[ours_writes ? 1 : 0];
  theirs = ends[ours_writes ? 0 : 1];
  return set_nonblocking(ours);
}

// The master knows its slave's number; what stands there is looked at, because another kernel may
// have no better way.
int open_slave_by_number(int master) {
  constexpr unsigned kSlaveMajor = 136;
  unsigned number = 0;
  if (ioctl(master, static_cast<int>(TIOCGPTN), &number) != 0) return -1;
  char path[] = "/dev/pts/0000000000";
  char* at = path + sizeof("/dev/pts/") - 1;
  char digits[10];
  int count = 0;
  for (unsigned rest = number; rest != 0 || count == 0; rest /= 10)
    digits[count++] = static_cast<char>('0' + rest % 10);
  while (count > 0) *at++ = digits[--count];
  *at = '\0';
  int slave = ::open(path, O_RDWR | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
  struct stat info{};
  if (slave >= 0 && fstat(slave, &info) == 0 && S_ISCHR(info.st_mode) &&
      info.st_rdev == makedev(kSlaveMajor, number))
    return slave;
  if (slave >= 0) errno = ENODEV;
  close_fd(slave);
  return -1;
}

// A new terminal: its other end comes from the master itself, never from a path the guest could
// have changed.
bool open_terminal(const wire::StartBody& body, bool change_owner, int& master, int& slave,
                   bool& keys) {
  master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (master < 0) return false;
  struct stat info{};
  if (fstat(master, &info) != 0) return false;
  if (!S_ISCHR(info.st_mode) || info.st_rdev != makedev(5, 2)) {
    errno = ENODEV;
    return false;
  }
  int unlocked = 0;
  if (ioctl(master, TIOCSPTLCK, &unlocked) != 0) return false;
  slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  keys = slave < 0 && errno == ENOTTY;
  if (keys) slave = open_slave_by_number(master);
  if (slave < 0) return false;
  winsize size{};
  size.ws_row = body.rows;
  size.ws_col = body.columns;
  if (ioctl(master, TIOCSWINSZ, &size) != 0) return false;
  return !change_owner || fchown(slave, body.uid, static_cast<gid_t>(-1)) == 0;
}

}  // namespace

bool ProcessTable::open() {
  static_assert(sizeof(ChildFailure) * wire::kProcessesMax <= 4096);
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || !processes_.open()) return false;
  failures_ = static_cast<ChildFailure*>(page);
  // Who says that init is the first to be spared says it at each fork: the shared memory's owner is
  // one for the kernel that counts it.
  if (!config_.carried || config_.oom_score >= 0) return true;
  cradles_ = map_unshared(kBirthsMax * sizeof(Cradle));
  attendants_ = reinterpret_cast<Attendant*>(map_unshared(kAttendantsMax * sizeof(Attendant)));
  return cradles_ != nullptr && attendants_ != nullptr;
}

// A place for a child that borrows our memory, or null when it must be forked.
void* ProcessTable::free_cradle() {
  auto* all = reinterpret_cast<Cradle*>(cradles_);
  for (size_t i = 0; all != nullptr && i < kBirthsMax; ++i) {
    if (__atomic_load_n(&all[i].birth.busy, __ATOMIC_ACQUIRE) == 0) return &all[i];
  }
  return nullptr;
}

// A kernel that does not clear the word does not keep the place for ever.
void ProcessTable::leave_cradle(int pid) {
  auto* all = reinterpret_cast<Cradle*>(cradles_);
  for (size_t i = 0; all != nullptr && i < kBirthsMax; ++i) {
    if (all[i].birth.pid == pid) all[i].birth.busy = all[i].birth.pid = 0;
  }
  // Nor is a number that may be somebody else's by now kept.
  for (size_t i = 0; attendants_ != nullptr && i < kAttendantsMax; ++i) {
    if (attendants_[i].pid == pid) attendants_[i].pid = 0;
  }
}

Process* ProcessTable::allot() {
  Process* drain = nullptr;
  for (uint32_t i = 0; i < used_; ++i) {
    if (processes_[i].life == Life::Free) return &processes_[i];
    if (drain == nullptr && processes_[i].life == Life::Draining) drain = &processes_[i];
  }
  if (used_ < wire::kProcessesMax) return &processes_[used_++];
  // The table is full: a forgotten process's daemon loses its pipe before a new process is refused.
  if (drain != nullptr) release(*drain);
  return drain;
}

bool ProcessTable::open_channels(const wire::StartBody& body, Channels& channels) {
  if ((body.flags & wire::kStartPty) != 0) {
    int slave = -1;
    const bool opened = open_terminal(body, !config_.has(wire::kConfigSingleId), channels.output[0],
                                      slave, channels.keys);
    if (slave >= 0) channels.child[0] = channels.child[1] = channels.child[2] = slave;
    if (!opened) return false;
    channels.input = fcntl(channels.output[0], F_DUPFD_CLOEXEC, kFdFirstFree);
    if (channels.input < 0) return false;
    if (channels.keys &&
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, channels.words) != 0)
      return false;
    // The attendant's end waits for words.
    if (channels.keys && fcntl(channels.words[1], F_SETFL, 0) != 0) return false;
  } else {
    if ((body.flags & wire::kStartStdin) != 0) {
      if (!open_pipe(channels.input, channels.child[0], true)) return false;
    }
    if (!open_pipe(channels.output[0], channels.child[1], false)) return false;
    if ((body.flags & wire::kStartMergeError) != 0) {
      channels.child[2] = channels.child[1];
    } else if (!open_pipe(channels.output[1], channels.child[2], false)) {
      return false;
    }
  }
  if ((body.flags & wire::kStartQuiet) == 0) {
    if (!open_pipe(channels.report[0], channels.report[1], false)) return false;
  }
  return true;
}

// Tenants are the first to go when memory runs out: they inherit the score that init has for the
// moment of the fork.
int ProcessTable::fork_tenant(const TenantPlan& plan, int group, bool sole) {
  if (config_.oom_score >= 0 && pwrite(config_.oom_score, "500", 3, 0) != 3) return -EIO;
  const int directory = group == GroupPool::kNone ? kNoGroup : groups_.directory(group);
  // NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): nobody is there to hold it up.
  const long pid = sole ? vfork() : fork_into(directory);
  if (pid == 0) run_tenant(plan);
  const int reason = errno;
  if (config_.oom_score >= 0) (void)pwrite(config_.oom_score, "0", 1, 0);
  return static_cast<int>(sole && pid < 0 ? -reason : pid);
}

StartFailure ProcessTable::launch(Process& process, const wire::StartView& view,
                                  Channels& channels) {
  static Arguments forked;
  auto* cradle = groups_.present() ? nullptr : static_cast<Cradle*>(free_cradle());
  Arguments& arguments = cradle != nullptr ? cradle->arguments : forked;
  arguments.fill(view);
  process.group = GroupPool::kNone;
  const bool sole = (view.body.flags & wire::kStartSole) != 0;
  if (groups_.present() && !sole) {
    process.group = groups_.acquire();
    if (process.group == GroupPool::kNone) return {errno, Step::Group};
  }
  TenantPlan plan{};
  plan.config = &config_;
  plan.argv = arguments.argv;
  plan.envp = arguments.envp;
  plan.path = path_of(arguments.envp);
  plan.cwd = arguments.cwd;
  plan.groups = arguments.groups;
  plan.group_count = view.body.group_count;
  plan.uid = view.body.uid;
  plan.gid = view.body.gid;
  for (int i = 0; i < 3; ++i) plan.stdio[i] = channels.child[i];
  plan.terminal = (view.body.flags & wire::kStartPty) != 0;
  plan.report = channels.report[1];
  plan.failure = &failures_[index_of(process)];
  *plan.failure = ChildFailure{};
  // NOLINTNEXTLINE(clang-analyzer-unix.cstring.NullArg): a Start without argv[0] was refused.
  strncpy(process.name, arguments.argv[0], sizeof(process.name) - 1);
  process.name[sizeof(process.name) - 1] = '\0';
  process.oom_kills = oom_kills();
  process.start_us = now_us();
  if (cradle != nullptr) {
    if (channels.keys) plan.attendant = call_attendant(process, channels.child[0]);
    if (plan.attendant != nullptr) plan.attendant->words = channels.words[1];
    cradle->birth.plan = plan;
    process.pid = static_cast<int>(give_birth(cradle->birth));
  } else {
    process.pid = fork_tenant(plan, process.group, sole && first_);
  }
  first_ = false;
  if (process.pid > 0) return {};
  if (process.group != GroupPool::kNone) groups_.release(process.group);
  dismiss_attendant(process);
  return {-process.pid, Step::Fork};
}

void ProcessTable::adopt(Process& process, const wire::StartView& view, Channels& channels) {
  const wire::StartBody& body = view.body;
  const uint32_t ring_bytes =
      smaller(larger(body.ring_bytes, wire::kRingBytesMin), wire::kRingBytesMax);
  const uint32_t index = index_of(process);
  process.flags = body.flags;
  process.mode = static_cast<Mode>(body.mode);
  process.attached = (body.flags & wire::kStartAttach) != 0 || process.mode == Mode::Collect;
  process.grace_ms = body.grace_ms;
  if (body.timeout_ms != 0)
    process.deadline_us = process.start_us + body.timeout_ms * uint64_t{1000};
  process.report = channels.report[0];
  process.started = process.report < 0;
  for (int which = 0; which < 2; ++which) {
    Output& out = process.out[which];
    out.fd = channels.output[which];
    out.eof = out.eof_sent = out.fd < 0;
    out.credit = body.window_bytes;
    if (out.fd < 0) continue;
    out.ring.open(process.mode, ring_bytes);
    ring_sum_ += ring_bytes;
    arm_output(process, which);
  }
  process.in.fd = channels.input;
  process.in.keys = channels.keys;
  process.words = channels.words[0];
  process.in.terminal = (body.flags & wire::kStartPty) != 0;
  process.in.window = channels.input >= 0 ? wire::kInputWindow : 0;
  if (process.report >= 0) poller_.add(process.report, EPOLLIN, Source::Report, index);
  process.life = Life::Running;
}

void ProcessTable::start(uint32_t id, const wire::StartView& view) {
  const wire::StartBody& body = view.body;
  const auto refuse = [&](int error, Step step) { link_.failed(Kind::Start, id, error, step); };
  if (!config_.has(wire::kConfigSingleId) && body.uid == config_.own_uid) {
    return refuse(EPERM, Step::Ids);
  }
  const uint64_t wanted = 2 * uint64_t{smaller(body.ring_bytes, wire::kRingBytesMax)};
  if (ring_sum_ + wanted > wire::kRingSumMax) return refuse(ENOBUFS, Step::Limit);
  Process* process = allot();
  if (process == nullptr) return refuse(EAGAIN, Step::Limit);

  Channels channels;
  StartFailure failure;
  *process = Process();
  if (!open_channels(body, channels)) {
    failure = {errno, Step::Pipe};
  } else {
    failure = launch(*process, view, channels);
  }
  channels.close_child();
  if (!failure.ok()) {
    channels.close_parent();
    process->life = Life::Free;
    return refuse(failure.sys_errno, failure.step);
  }
  process->id = id;
  adopt(*process, view, channels);
}

}  // namespace caisson::init
