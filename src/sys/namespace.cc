#include "sys/namespace.h"

#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "sys/file.h"
#include "sys/mount.h"
#include "sys/raw.h"

namespace caisson::sys {

enum class Preparation : std::uint8_t { Nothing, RefuseNested, Loopback, LoopbackAndMounts };

// Read by the helper while we go on: nobody changes it, or moves it, until the helper is reaped.
struct PendingNamespace::Helper {
  static constexpr std::size_t kStackBytes = std::size_t{16} * 1024;
  pid_t parent = 0;
  int go = -1;
  int report = -1;
  int settings = -1;
  Preparation preparation = Preparation::Nothing;
  alignas(16) std::array<std::byte, kStackBytes> stack;

  [[noreturn]] static void main(void* argument) noexcept;
};

namespace {

constexpr char kDone = 'd';
constexpr char kFailed = 'f';

// A setting by its place in /proc.
bool write_setting(int settings, const char* place, const char* text, std::size_t size) noexcept {
  const int proc = settings >= 0 ? settings : ::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) return false;
  const int fd = ::openat(proc, place, O_WRONLY | O_CLOEXEC);
  if (settings < 0) ::close(proc);
  if (fd < 0) return false;
  const bool written = ::write(fd, text, size) == static_cast<ssize_t>(size);
  ::close(fd);
  return written;
}

bool bring_loopback_up(int settings) noexcept {
  const int any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any < 0) return false;
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = IFF_UP;
  const bool up = ::ioctl(any, SIOCSIFFLAGS, &request) == 0;
  ::close(any);
  return up && write_setting(settings, "sys/net/ipv4/ip_unprivileged_port_start", "0", 1);
}

// A new root in which there is one folder and nothing of the host: a read-only tmpfs, put on any
// folder and pivoted to.
bool leave_the_hosts_mounts() noexcept {
  if (::unshare(CLONE_NEWNS) != 0) return false;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (::mount("tmpfs", "/usr", "tmpfs", kFlags, "mode=0755,size=4k,nr_inodes=4") != 0) return false;
  if (::chdir("/usr") != 0 || ::mkdir(PendingNamespace::kEmptyFolder + 1, 0755) != 0) return false;
  return raw::pivot_root(".", ".") == 0 && ::umount2(".", MNT_DETACH) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REMOUNT | MS_RDONLY | kFlags, nullptr) == 0;
}

bool prepare(Preparation what, int settings) noexcept {
  switch (what) {
    case Preparation::Nothing:
      return true;
    case Preparation::RefuseNested:
      return write_setting(settings, "sys/user/max_user_namespaces", "0", 1);
    // Made here and not by clone: the kernel makes a network namespace in the process that asks for
    // it, for a third of a millisecond, and that need not be the launcher.
    case Preparation::Loopback:
      return ::unshare(CLONE_NEWNET) == 0 && bring_loopback_up(settings);
    case Preparation::LoopbackAndMounts:
      return ::unshare(CLONE_NEWNET) == 0 && bring_loopback_up(settings) &&
             leave_the_hosts_mounts();
  }
  return false;
}

// While it lives the calling thread is another user, with all that it may do. Its real and its
// saved id stay, so nobody else gets a right over it.
class AnotherUser {
 public:
  [[nodiscard]] static Result<AnotherUser> become(uid_t user) {
    std::uint64_t effective = 0;
    std::uint64_t permitted = 0;
    if (raw::capget(effective, permitted) != 0) return sys_failure("read own capabilities", errno);
    const uid_t own = ::geteuid();
    if (set_effective(user) != 0) return sys_failure("become another user", errno);
    AnotherUser visit(own);
    // The change has put them out of effect.
    if (raw::capset(effective, permitted, 0) != 0) return sys_failure("keep capabilities", errno);
    return visit;
  }
  AnotherUser(AnotherUser&& other) noexcept : own_(std::exchange(other.own_, std::nullopt)) {}
  AnotherUser& operator=(AnotherUser&&) = delete;
  AnotherUser(const AnotherUser&) = delete;
  AnotherUser& operator=(const AnotherUser&) = delete;
  // Files made as somebody of a sandbox would be that sandbox's: better no process than that.
  ~AnotherUser() {
    if (own_) CAISSON_ASSERT(set_effective(*own_) == 0);
  }

 private:
  explicit AnotherUser(uid_t own) noexcept : own_(own) {}
  static long set_effective(uid_t id) noexcept { return ::syscall(SYS_setresuid, -1, id, -1); }
  std::optional<uid_t> own_;
};

std::string map_text(const IdMap& map) {
  std::string text;
  for (const IdMapping& part : map) {
    text += std::to_string(part.inside) + " " + std::to_string(part.outside) + " " +
            std::to_string(part.count) + "\n";
  }
  return text;
}

}  // namespace

// Lives in our memory and on its own stack, and has our descriptors until it is done: thousands may
// be open here, and each would cost a copy and a close. Ends when we do.
void PendingNamespace::Helper::main(void* argument) noexcept {
  const auto& helper = *static_cast<const Helper*>(argument);
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Who died before that line sends no signal any more. We would stay for good, and with our hold
  // of his socket nobody would see that he is gone.
  if (::getppid() != helper.parent) ::_exit(0);
  // Where nothing is prepared nobody waits for us: our numbers may be somebody else's by now.
  if (helper.preparation != Preparation::Nothing) {
    char word = kFailed;
    if (::read(helper.go, &word, 1) == 1)
      word = prepare(helper.preparation, helper.settings) ? kDone : kFailed;
    (void)!::write(helper.report, &word, 1);
  }
  // It may stay for long, and what is open belongs to somebody: a listener that is held here would
  // hold its port for good. From here on it has a table of its own, with nothing in it.
  if (raw::close_range(0, ~0U, CLOSE_RANGE_UNSHARE) != 0) ::_exit(1);
  for (;;) (void)::pause();
}

int SettingsView::next() noexcept {
  if (root_ && uses_ < kUsesMax) {
    ++uses_;
    return root_.get();
  }
  if (refused_) return -1;
  auto made = new_mount("proc", {}, kMountNoSuid | kMountNoDev | kMountNoExec);
  if (made) made = park(*std::move(made));
  if (!made) {
    refused_ = true;
    return -1;
  }
  before_ = std::exchange(root_, *std::move(made));
  uses_ = 1;
  return root_.get();
}

Result<void> PendingNamespace::launch(std::uint64_t flags, std::optional<uid_t> owner) {
  if (helper_->preparation != Preparation::Nothing) {
    Pipe go = TRY(make_pipe());
    Pipe report = TRY(make_pipe());
    go_ = std::move(go.write);
    heard_ = std::move(go.read);
    report_ = std::move(report.read);
    said_ = std::move(report.write);
  }
  helper_->parent = ::getpid();
  helper_->go = heard_.get();
  helper_->report = said_.get();
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = flags | CLONE_VM | CLONE_FILES | CLONE_PIDFD;
  arguments.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  arguments.stack = reinterpret_cast<std::uint64_t>(helper_->stack.data());
  arguments.stack_size = Helper::kStackBytes;
  std::optional<AnotherUser> as_owner;
  if (owner) as_owner.emplace(TRY(AnotherUser::become(*owner)));
  const long pid = raw::clone3_on_stack(arguments, Helper::main, helper_.get());
  if (pid < 0) return sys_failure("new namespace", errno);
  as_owner.reset();
  child_ = Child::adopt(static_cast<pid_t>(pid), UniqueFd(pidfd));
  return {};
}

Result<NetworkNamespaceVisit> NetworkNamespaceVisit::begin(int target) {
  UniqueFd own = TRY(open_at(AT_FDCWD, "/proc/thread-self/ns/net", O_RDONLY));
  if (::setns(target, CLONE_NEWNET) == 0) return NetworkNamespaceVisit(std::move(own));
  const int reason = errno;
  if (reason == ESRCH) return failure(Errc::Gone, "the sandbox has ended");
  return sys_failure("enter the sandbox's network", reason);
}

NetworkNamespaceVisit::~NetworkNamespaceVisit() {
  if (own_) CAISSON_ASSERT(::setns(own_.get(), CLONE_NEWNET) == 0);
}

Result<PidNamespaceVisit> PidNamespaceVisit::begin(int pidfd) {
  UniqueFd own = TRY(open_at(AT_FDCWD, "/proc/thread-self/ns/pid", O_RDONLY));
  if (::setns(pidfd, CLONE_NEWPID) == 0) return PidNamespaceVisit(std::move(own));
  const int reason = errno;
  if (reason == ESRCH) return failure(Errc::Gone, "the sandbox has ended");
  return sys_failure("enter the sandbox's pid namespace", reason);
}

PidNamespaceVisit::~PidNamespaceVisit() {
  // Staying would put the next sandbox's helpers into this one: better no process than that.
  if (own_) CAISSON_ASSERT(::setns(own_.get(), CLONE_NEWPID) == 0);
}

Result<void> write_id_maps(pid_t pid, const IdMap& users, const IdMap& groups) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/";
  TRY(write_once(AT_FDCWD, folder + "uid_map", map_text(users)));
  return write_once(AT_FDCWD, folder + "gid_map", map_text(groups));
}

Result<void> deny_setgroups() { return write_once(AT_FDCWD, "/proc/self/setgroups", "deny"); }

Result<PendingNamespace> PendingNamespace::start_user(const IdMap& users, const IdMap& groups,
                                                      NestedNamespaces nested,
                                                      std::optional<uid_t> owner, int settings) {
  PendingNamespace pending;
  pending.helper_ = std::make_unique_for_overwrite<Helper>();
  pending.helper_->preparation =
      nested == NestedNamespaces::Refused ? Preparation::RefuseNested : Preparation::Nothing;
  pending.helper_->settings = settings;
  pending.link_ = "/ns/user";
  TRY(pending.launch(CLONE_NEWUSER, owner));
  TRY(write_id_maps(pending.child_.pid(), users, groups));
  if (pending.go_ && ::write(pending.go_.get(), &kDone, 1) != 1)
    return sys_failure("new user namespace", errno);
  return pending;
}

Result<PendingNamespace> PendingNamespace::start_network(Mounts mounts, int settings) {
  PendingNamespace pending;
  pending.helper_ = std::make_unique_for_overwrite<Helper>();
  pending.helper_->preparation =
      mounts == Mounts::Empty ? Preparation::LoopbackAndMounts : Preparation::Loopback;
  pending.helper_->settings = settings;
  pending.link_ = "/ns/net";
  TRY(pending.launch(0));
  if (::write(pending.go_.get(), &kDone, 1) != 1)
    return sys_failure("new network namespace", errno);
  return pending;
}

PendingNamespace::PendingNamespace() = default;
PendingNamespace::PendingNamespace(PendingNamespace&&) noexcept = default;
PendingNamespace& PendingNamespace::operator=(PendingNamespace&& other) noexcept {
  const PendingNamespace old(std::move(*this));  // ends in the order of its members
  helper_ = std::move(other.helper_);
  go_ = std::move(other.go_);
  heard_ = std::move(other.heard_);
  report_ = std::move(other.report_);
  said_ = std::move(other.said_);
  child_ = std::move(other.child_);
  link_ = other.link_;
  ready_ = other.ready_;
  return *this;
}
PendingNamespace::~PendingNamespace() = default;

Result<void> PendingNamespace::wait() {
  if (ready_ || helper_->preparation == Preparation::Nothing) return {};
  // A helper that is gone reports nothing, and our end of its pipe stays open.
  std::array<pollfd, 2> either{{{report_.get(), POLLIN, 0}, {child_.pidfd(), POLLIN, 0}}};
  while (::poll(either.data(), either.size(), -1) < 0) {
    if (errno != EINTR) return sys_failure("prepare a namespace", errno);
  }
  char word = kFailed;
  if ((either[0].revents & POLLIN) != 0 && ::read(report_.get(), &word, 1) != 1)
    return sys_failure("prepare a namespace", errno);
  if (word != kDone) {
    return failure(
        Errc::Unsupported,
        std::string("prepare a namespace: its settings could not be written (") + link_ + ")");
  }
  ready_ = true;
  return {};
}

Result<UniqueFd> PendingNamespace::mounts() {
  TRY(wait());
  return open_at(AT_FDCWD, "/proc/" + std::to_string(child_.pid()) + "/ns/mnt", O_RDONLY);
}

Result<UniqueFd> PendingNamespace::finish() {
  TRY(wait());
  UniqueFd made = TRY(open_at(AT_FDCWD, "/proc/" + std::to_string(child_.pid()) + link_, O_RDONLY));
  (void)child_.signal(SIGKILL);  // it dies while the caller goes on; the destructor reaps it
  go_.reset();
  heard_.reset();
  report_.reset();
  said_.reset();
  return made;
}

Result<Surroundings> enter_new_surroundings() {
  // Opened before: there is no /proc in the new ones.
  const UniqueFd own = TRY(open_at(AT_FDCWD, "/proc/thread-self/ns", O_RDONLY | O_DIRECTORY));
  if (::unshare(CLONE_NEWIPC) != 0 || !prepare(Preparation::LoopbackAndMounts, -1))
    return sys_failure("new network and mount namespaces", errno);
  return Surroundings{TRY(open_at(own.get(), "net", O_RDONLY)),
                      TRY(open_at(own.get(), "mnt", O_RDONLY)),
                      TRY(open_at(own.get(), "ipc", O_RDONLY))};
}

MountNamespaceVisit::MountNamespaceVisit(int there, int back) noexcept : back_(back) {
  inside_ = ::setns(there, CLONE_NEWNS) == 0;
}

MountNamespaceVisit::~MountNamespaceVisit() {
  // Staying would mean that the next launch mounts in the host's own namespace: better no launcher
  // than that one.
  if (inside_) CAISSON_ASSERT(::setns(back_, CLONE_NEWNS) == 0);
}

Result<void> rename_host(int pidfd, std::string_view name) {
  const UniqueFd own(::open("/proc/thread-self/ns/uts", O_RDONLY | O_CLOEXEC));
  if (!own) return sys_failure("hold the own host name", errno);
  if (::setns(pidfd, CLONE_NEWUTS) != 0) return sys_failure("enter the host names", errno);
  const int named = ::sethostname(name.data(), name.size());
  const int reason = errno;
  // Staying would give the next name to the wrong host: better no process than that one.
  CAISSON_ASSERT(::setns(own.get(), CLONE_NEWUTS) == 0);
  if (named != 0) return sys_failure("set the host name", reason);
  return {};
}

}  // namespace caisson::sys
