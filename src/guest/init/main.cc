// Process 1 of a sandbox: starts, serves, reaps.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/init/init.h"
#include "guest/init/sys.h"

namespace caisson::init {

bool reserve_descriptors() {
  for (int fd = wire::kFdControl; fd < kFdFirstFree; ++fd) {
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) == 0) continue;
    if (dup3(0, fd, O_CLOEXEC) < 0) return false;
  }
  return true;
}

void peer_left(Init& init) {
  init.link.drop();
  init.processes.peer_left();
  init.operations.peer_left();
}

void end_sandbox(Init& init) {
  init.processes.kill_all();
  _exit(0);  // the kernel ends every process of the namespace with its first one
}

namespace {

using wire::Step;

[[noreturn]] void give_up(StartFailure failure) {
  const wire::ControlFailed message{
      {wire::kVersion, static_cast<uint32_t>(wire::ControlKind::Failed)},
      failure.sys_errno,
      static_cast<uint32_t>(failure.step)};
  (void)send(wire::kFdControl, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
  _exit(1);
}

bool is_socket(int fd) {
  struct stat info{};
  return fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode);
}

// What our starter ignored (SIGPIPE, or SIGCHLD, without which nobody is reaped) would be ignored
// by us and by every tenant: exec keeps it. By system call, because libc keeps three numbers to
// itself. Two others always refuse, as they should.
void default_signals() {
  struct {
    void* handler;
    unsigned long flags;
    void* restorer;
    uint64_t mask;
  } const action{};
  constexpr int kSignalMax = 64;
  for (int number = 1; number <= kSignalMax; ++number)
    (void)syscall(SYS_rt_sigaction, number, &action, nullptr, sizeof(action.mask));
}

int open_child_events() {
  default_signals();
  sigset_t all;
  sigfillset(&all);
  if (sigprocmask(SIG_SETMASK, &all, nullptr) != 0) return -1;
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

void raise_own_limits() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

// What both ways to begin have in common once the configuration is there.
StartFailure open_tables(Init& init, int& child_events) {
  child_events = open_child_events();
  if (child_events < 0) return {errno, Step::Pipe};
  const bool opened = init.groups.open(init.config.has(wire::kConfigGroups)) &&
                      init.processes.open() && init.operations.open();
  if (!opened) return {ENOMEM, Step::Limit};
  init.poller.add(child_events, EPOLLIN, Source::Children);
  return {};
}

void begin(Init& init, int& child_events) {
  const bool has_stream = is_socket(wire::kFdStream);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) give_up({errno, Step::Ids});
  if (!init.poller.open() || !init.link.open_buffers()) give_up({ENOMEM, Step::Limit});
  if (!reserve_descriptors()) give_up({errno, Step::Stdio});
  raise_own_limits();
  const StartFailure configured = read_config(init.config);
  if (!configured.ok()) give_up(configured);
  const StartFailure opened = open_tables(init, child_events);
  if (!opened.ok()) give_up(opened);
  init.poller.add(wire::kFdControl, EPOLLIN, Source::Control);
  // The stream moves out of the fixed numbers: a later one replaces it, and each closes like any
  // other descriptor.
  if (!has_stream) return;
  const int stream = fcntl(wire::kFdStream, F_DUPFD_CLOEXEC, kFdFirstFree);
  if (stream < 0 || dup3(0, wire::kFdStream, O_CLOEXEC) < 0) give_up({errno, Step::Stdio});
  init.link.attach(stream, init.config.wire.nonce);
}

// The kind of the next message, without taking it; Failed when there is none.
wire::ControlKind next_kind() {
  wire::ControlHeader header{};
  const ssize_t seen = recv(wire::kFdControl, &header, sizeof(header), MSG_PEEK | MSG_DONTWAIT);
  return seen == sizeof(header) ? static_cast<wire::ControlKind>(header.kind)
                                : wire::ControlKind::Failed;
}

// A sandbox whose tenants would run by the rules of another root is none.
void take_rules(Init& init) {
  const StartFailure read = read_rules(init.config);
  if (!read.ok()) give_up(read);
}

// The launcher changes the root under us: nobody is started before it says how that went.
void hold(Init& init) {
  const wire::ControlHeader held{wire::kVersion, static_cast<uint32_t>(wire::ControlKind::Held)};
  if (send(wire::kFdControl, &held, sizeof(held), MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(sizeof(held)))
    return;
  for (;;) {
    pollfd control{wire::kFdControl, POLLIN, 0};
    if (poll(&control, 1, -1) < 0 && errno != EINTR) end_sandbox(init);
    if ((control.revents & (POLLHUP | POLLERR)) != 0) end_sandbox(init);
    if ((control.revents & POLLIN) == 0) continue;
    if (next_kind() == wire::ControlKind::Rules) return take_rules(init);
    wire::ControlHeader header{};
    const ssize_t got = recv(wire::kFdControl, &header, sizeof(header), MSG_DONTWAIT);
    if (got == 0) end_sandbox(init);
    if (got == sizeof(header) && header.kind == static_cast<uint32_t>(wire::ControlKind::Release))
      return;
  }
}

void on_control(Init& init) {
  if (next_kind() == wire::ControlKind::Rules) return take_rules(init);
  wire::ControlHeader header{};
  int fd = -1;
  const ssize_t got = receive_with_descriptor(wire::kFdControl, &header, sizeof(header), fd);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) end_sandbox(init);  // the launcher is gone
  const bool whole = got == sizeof(header) && header.version == wire::kVersion;
  const auto kind = static_cast<wire::ControlKind>(header.kind);
  if (whole && kind == wire::ControlKind::Shutdown) end_sandbox(init);
  if (whole && kind == wire::ControlKind::Hold) hold(init);
  if (whole && kind == wire::ControlKind::EndProcesses) {
    init.processes.kill_all();
    init.operations.end_all();
  }
  if (whole && kind == wire::ControlKind::Attach && fd >= 0 && is_socket(fd)) {
    peer_left(init);
    init.link.attach(fd, init.config.wire.nonce);
    return;
  }
  close_fd(fd);
}

// Takes requests while their answers have room.
void serve_requests(Init& init) {
  while (init.link.open() && init.link.has_room(Connection::kReplyRoom)) {
    wire::FrameHeader header{};
    wire::Bytes payload;
    const wire::Scan scan = init.link.next(header, payload);
    if (scan == wire::Scan::NeedMore) return;
    if (init.link.carried()) {
      if (scan == wire::Scan::Bad) end_sandbox(init);  // the carrier says no such thing
      if (handle_carried(init, header, payload)) continue;
      if (!init.link.up()) continue;  // the last words of a peer that is gone
    }
    if (scan != wire::Scan::Bad && handle_request(init, header, payload)) continue;
    (void)init.link.flush();  // what it was owed before, our hello at least
    peer_left(init);
  }
}

void on_link(Init& init, uint32_t events) {
  if (!init.link.open()) return;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    if (init.link.receive() == Connection::Read::Closed) {
      if (init.link.carried()) end_sandbox(init);
      return peer_left(init);
    }
  }
  serve_requests(init);
}

// Everything that died: tenants, operations, and orphans that came to us because we are process 1.
void on_children(Init& init, int child_events) {
  signalfd_siginfo info;
  (void)read(child_events, &info, sizeof(info));
  for (;;) {
    int status = 0;
    rusage usage{};
    const int pid = wait4(-1, &status, WNOHANG | __WALL, &usage);
    if (pid <= 0) break;
    if (!init.processes.on_reaped(pid, status, usage)) init.operations.on_reaped(pid, status);
  }
  init.processes.after_reaping();
}

void handle(Init& init, const Ready& ready, int child_events) {
  switch (ready.source) {
    case Source::Control:
      on_control(init);
      break;
    case Source::Children:
      on_children(init, child_events);
      break;
    case Source::Output:
      init.processes.on_output(ready.index, 0);
      break;
    case Source::Error:
      init.processes.on_output(ready.index, 1);
      break;
    case Source::Input:
      init.processes.on_input(ready.index);
      break;
    case Source::Report:
      init.processes.on_report(ready.index);
      break;
    case Source::Group:
      init.processes.on_group(ready.index);
      break;
    case Source::OpSocket:
      init.operations.on_socket(ready.index, ready.events);
      break;
    case Source::OpInput:
      init.operations.on_input(ready.index);
      break;
    case Source::Listener:
      init.network.on_listener(ready.index);
      break;
    case Source::Carried:
      init.network.on_connection(ready.index, ready.events);
      break;
    case Source::Questions:
      init.network.on_questions();
      break;
    case Source::Link:
      break;  // last, see serve()
  }
}

uint64_t earlier(uint64_t a, uint64_t b) { return a == 0 || (b != 0 && b < a) ? b : a; }

int wait_ms(const Init& init) {
  const uint64_t at =
      earlier(earlier(init.processes.next_deadline(), init.operations.next_deadline()),
              init.link.next_look());
  if (at == 0) return -1;
  const uint64_t now = now_us();
  if (at <= now) return 0;
  return static_cast<int>(smaller<uint64_t>((at - now + 999) / 1000, 1'000'000));
}

[[noreturn]] void serve(Init& init, int child_events) {
  for (;;) {
    if (!init.link.flush()) {
      if (init.link.carried() && !init.link.overflowed()) end_sandbox(init);
      peer_left(init);
    }
    Ready ready[Poller::kReadyMax];
    const int count = init.poller.wait(ready, init.link.must_turn() ? 0 : wait_ms(init));
    uint32_t link_events = 0;
    for (int i = 0; i < count; ++i) {
      if (ready[i].source == Source::Link) link_events = ready[i].events;
      if (ready[i].source != Source::Link) handle(init, ready[i], child_events);
    }
    const uint64_t look = init.link.next_look();
    if (look != 0 && look <= now_us()) link_events |= EPOLLIN;
    // Requests come last: they may free a slot and fill it again, and no older event of this turn
    // may meet the new one.
    on_link(init, link_events);
    const uint64_t now = now_us();
    init.processes.on_deadlines(now);
    init.operations.on_deadlines(now);
    init.processes.pump();
    init.operations.pump();
    if (init.link.carried()) init.network.pump();
  }
}

}  // namespace
}  // namespace caisson::init

int main(int argc, char** argv) {
  using namespace caisson::init;
  // Exec made us readable to whoever has our id: undone before anything else.
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  static Init init;
  int child_events = -1;
  // The name is cosmetic; everything else has to work, or there is no sandbox.
  prctl(PR_SET_NAME, "caisson-init", 0, 0, 0);
  if (argc > 1 && strcmp(argv[1], "carried") == 0) {
    const bool port = argc > 2 && strcmp(argv[2], "port") == 0;
    begin_carried(init, port ? Connection::Life::Port : Connection::Life::Stream);
    raise_own_limits();
    const StartFailure opened = open_tables(init, child_events);
    if (!opened.ok()) give_up_carried(init, opened);
    open_network(init);
    init.link.done(caisson::wire::Kind::Configure, 0);
  } else {
    begin(init, child_events);
  }
  // What lies there already goes first: our hello would only wake the peer on the way.
  on_link(init, EPOLLIN);
  serve(init, child_events);
}
