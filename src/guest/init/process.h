// guest/init/process.h — the table of tenants: from Start to Forget.
//
//   start      process_start.cc   pipes or a terminal, a group, a fork; the child's steps are in
//   child.cc output     process_output.cc  pipe → ring → Data, with credit; Exited and Eof when
//   they are due end        process_end.cc     reaping, deadlines, killing the tree, Forget
//   requests   process_talk.cc    signals, input, windows, attach, list
//
// A process is *reaped* when the kernel told us its status, *ended* when also its tree is dead (if
// that was wanted; a sole one's as far as a walk finds it) and what it had written is in the ring,
// *forgotten* when its record goes. A forgotten process whose pipe is still held by a background
// child becomes a drain: its bytes are read and dropped, so that the child does not die of SIGPIPE.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "guest/init/child.h"
#include "guest/init/config.h"
#include "guest/init/connection.h"
#include "guest/init/group.h"
#include "guest/init/poller.h"
#include "guest/init/ring.h"
#include "guest/init/sys.h"

namespace caisson::init {

struct Output {
  int fd = -1;
  bool armed = false;     // in the epoll set
  bool eof = false;       // the last writer closed it
  bool eof_sent = false;  // and the peer knows
  Ring ring;
  uint64_t sent = 0;  // offset of the next byte for the peer
  uint64_t credit = 0;
  uint64_t drain_to = 0;  // once reaped: the process has not ended before the ring reaches this
};

// Bytes for a tenant or an operation that its pipe did not take yet. At most kInputWindow, since
// that is the credit.
struct Input {
  int fd = -1;
  bool armed = false;
  bool closing = false;   // no more bytes follow: close behind the last one
  bool terminal = false;  // closing means typing the end-of-file character
  bool keys = false;      // init makes signals of its keys, because the kernel does not
  uint8_t* held = nullptr;
  uint32_t begin = 0;
  uint32_t size = 0;
  uint32_t window = 0;    // bytes the peer may still send
  uint32_t consumed = 0;  // bytes to give back as credit
};
static_assert(wire::kInputWindow >= 4096);

enum class Take { Ok, Overrun };
Take input_take(Input& input, Poller& poller, Source source, uint32_t index, wire::Bytes bytes);
void input_push(Input& input, Poller& poller, Source source, uint32_t index);
void input_close(Input& input, Poller& poller);
// Gives consumed bytes back to the peer once they are worth a frame.
void input_credit(Input& input, Connection& link, uint32_t id);

enum class Life : uint8_t { Free, Running, Reaped, Ended, Draining };

struct Process {
  uint32_t id = 0;
  int pid = 0;
  Life life = Life::Free;
  uint32_t flags = 0;
  wire::Mode mode = wire::Mode::Stream;
  int group = GroupPool::kNone;
  int report = -1;       // end of file here: the exec happened, or the child is dead
  bool started = false;  // known to be past its exec, or the peer did not want to be told
  bool attached = false;
  bool exited_sent = false;
  bool awaits_group = false;  // its tree was killed and is not gone yet
  bool group_armed = false;
  uint64_t kill_again_us = 0;  // awaits_group: look again at this time, and kill who is left
  bool timed_out = false;
  uint32_t grace_ms = 0;
  uint64_t deadline_us = 0;  // 0: none
  uint64_t start_us = 0;
  uint64_t oom_kills = 0;  // of the sandbox, at its start
  Output out[2];
  Input in;
  int attendant = -1;  // which one; -1: none
  int words = -1;      // to it
  wire::ExitedBody exited{};
  char name[Connection::kNameMax];
};

class ProcessTable {
 public:
  ProcessTable(const Config& config, Poller& poller, Connection& link, GroupPool& groups)
      : config_(config), poller_(poller), link_(link), groups_(groups) {}

  bool open();  // the table, and the page in which children leave their failures

  // Requests. Each answers the peer itself.
  void start(uint32_t id, const wire::StartView& view);
  void signal(Process& process, const wire::SignalBody& body);
  void resize(Process& process, const wire::ResizeBody& body);
  void attach(Process& process, const wire::AttachBody& body);
  void detach(Process& process);
  void forget(Process& process);
  void list(uint32_t id);
  bool input(Process& process, wire::Bytes bytes);  // false: beyond the window
  void input_eof(Process& process);
  void credit(Process& process, wire::Stream stream, uint32_t bytes);

  // Events.
  void on_output(uint32_t index, int which);
  void on_input(uint32_t index);
  void on_report(uint32_t index);
  void on_group(uint32_t index);
  bool on_reaped(int pid, int status, const rusage& usage);  // false: not one of ours
  void after_reaping();                                      // groups may have become empty
  void on_deadlines(uint64_t now);
  [[nodiscard]] uint64_t next_deadline() const;  // 0: none
  void peer_left();

  void pump();      // sends what is due while there is room
  void kill_all();  // every tenant, for Shutdown

  [[nodiscard]] Process* find(uint32_t id);

 private:
  struct Channels;  // a new process's descriptors, both sides

  [[nodiscard]] uint32_t index_of(const Process& process) const {
    return static_cast<uint32_t>(&process - processes_.begin());
  }
  Process* allot();
  bool open_channels(const wire::StartBody& body, Channels& channels);
  void adopt(Process& process, const wire::StartView& view, Channels& channels);
  StartFailure launch(Process& process, const wire::StartView& view, Channels& channels);
  void signal_terminal(Process& process, int number);
  wire::Bytes take_keys(Process& process, wire::Bytes bytes);
  Attendant* call_attendant(Process& process, int terminal);
  void dismiss_attendant(Process& process);
  void* free_cradle();
  void leave_cradle(int pid);
  [[nodiscard]] int fork_tenant(const TenantPlan& plan, int group, bool sole);

  void arm_output(Process& process, int which);
  void disarm_output(Process& process, int which);
  bool read_output(Process& process, int which);
  bool read_unmapped(Process& process, int which);
  void read_nothing(Process& process, int which, long got, int error);
  void close_output(Process& process, int which);
  void set_drain_target(Process& process, int which);
  void announce(Process& process);
  bool pump_output(Process& process, int which);
  bool pump_one(Process& process);

  void finish(Process& process);
  void kill_tree(Process& process);
  [[nodiscard]] static bool holds(const Process& process);
  void kill_again(Process& process);
  void end_held(Process& process);
  void release(Process& process);
  [[nodiscard]] bool alone(const Process& process) const;
  [[nodiscard]] uint64_t oom_kills() const;

  const Config& config_;
  Poller& poller_;
  Connection& link_;
  GroupPool& groups_;
  ChildFailure* failures_ = nullptr;  // one per slot, shared with children until their exec
  uint8_t* cradles_ = nullptr;        // of children that borrow our memory
  Attendant* attendants_ = nullptr;   // likewise
  uint32_t used_ = 0;                 // slots beyond were never used
  bool first_ = true;                 // nobody has been started yet
  uint32_t next_ = 0;                 // whose turn it is to send
  uint64_t ring_sum_ = 0;
  Slots<Process, wire::kProcessesMax> processes_;
};

}  // namespace caisson::init
