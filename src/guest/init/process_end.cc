// The end of a tenant: deadlines, reaping, its tree, and when its record goes.
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/init/process.h"
#include "guest/init/sys.h"
#include "guest/init/tree.h"

namespace caisson::init {

using wire::Kind;
using wire::Mode;

namespace {

// A kill of a group is for good on the kernels we know. Should one be missed by it, or its notice
// be lost, then not for longer than this.
constexpr uint64_t kKillAgainUs = 200'000;

uint64_t microseconds(const timeval& at) {
  return static_cast<uint64_t>(at.tv_sec) * 1000000U + static_cast<uint64_t>(at.tv_usec);
}

}  // namespace

uint64_t ProcessTable::oom_kills() const {
  if (!config_.has(wire::kConfigOom)) return 0;
  char text[1024];
  const ssize_t got = pread(wire::kFdOom, text, sizeof(text) - 1, 0);
  text[got > 0 ? got : 0] = '\0';
  return field_of(text, "oom_kill");
}

// Whether no other tenant runs: a stray daemon can then only be this one's.
bool ProcessTable::alone(const Process& process) const {
  for (uint32_t i = 0; i < used_; ++i) {
    const Life life = processes_[i].life;
    if (&processes_[i] != &process && (life == Life::Running || life == Life::Reaped)) return false;
  }
  return true;
}

namespace {

// Everything in here descends from us, and what lost its parent is our child: without children we
// are alone.
bool childless() {
  siginfo_t any;
  return waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 && errno == ECHILD;
}

}  // namespace

void ProcessTable::kill_tree(Process& process) {
  if (process.group == GroupPool::kNone) {
    const bool strays = alone(process);
    if (tree_signal(process.pid, SIGKILL, strays) > 0)
      process.exited.flags |= wire::kExitTreeKilled;
    if (process.life == Life::Running) kill(process.pid, SIGKILL);
    return;
  }
  groups_.kill(process.group);
  process.awaits_group = true;
  process.kill_again_us = now_us() + kKillAgainUs;
  if (process.group_armed) return;
  process.group_armed = true;
  poller_.add(groups_.events(process.group), EPOLLPRI, Source::Group, index_of(process));
}

// Whether its end waits for those who have its pipes.
bool ProcessTable::holds(const Process& process) {
  return (process.flags & wire::kStartHold) != 0 && !process.timed_out;
}

bool ProcessTable::on_reaped(int pid, int status, const rusage& usage) {
  leave_cradle(pid);
  Process* process = nullptr;
  for (uint32_t i = 0; i < used_ && process == nullptr; ++i) {
    if (processes_[i].life == Life::Running && processes_[i].pid == pid) process = &processes_[i];
  }
  if (process == nullptr) return false;
  dismiss_attendant(*process);
  const ChildFailure failure = failures_[index_of(*process)];
  if (failure.step != 0) {
    link_.failed(Kind::Start, process->id, failure.sys_errno,
                 static_cast<wire::Step>(failure.step));
    release(*process);
    return true;
  }
  process->life = Life::Reaped;
  if (!holds(*process)) process->deadline_us = 0;
  wire::ExitedBody& exited = process->exited;
  exited.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  exited.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (WCOREDUMP(status)) exited.flags |= wire::kExitCoreDumped;
  if (process->timed_out) exited.flags |= wire::kExitTimedOut;
  exited.wall_us = now_us() - process->start_us;
  exited.user_us = microseconds(usage.ru_utime);
  exited.system_us = microseconds(usage.ru_stime);
  exited.peak_rss_kib = static_cast<uint64_t>(usage.ru_maxrss);
  const bool ends_tree = (process->flags & wire::kStartKillTree) != 0 || process->timed_out;
  if (process->group == GroupPool::kNone) {
    if (ends_tree && !childless()) {
      // Whatever the walk finds: one who hops from process to process may not be seen by it.
      exited.flags |= wire::kExitTreeKilled;
      kill_tree(*process);
    }
  } else if (groups_.populated(process->group)) {
    if (ends_tree) {
      exited.flags |= wire::kExitTreeKilled;
      kill_tree(*process);
    }
  } else {
    process->awaits_group = false;
  }
  if (!process->awaits_group) {
    set_drain_target(*process, 0);
    set_drain_target(*process, 1);
  }
  finish(*process);
  return true;
}

void ProcessTable::on_group(uint32_t index) {
  Process& process = processes_[index];
  if (process.life == Life::Free || process.group == GroupPool::kNone) return;
  const bool populated = groups_.populated(process.group);  // reading it also quiets the notice
  if (populated || !process.awaits_group) return;
  if (process.life != Life::Reaped)
    return;  // the group is empty, its first process still to be waited for
  process.awaits_group = false;
  set_drain_target(process, 0);
  set_drain_target(process, 1);
  finish(process);
}

// Quicker than the kernel's notice, which it holds back for up to 10 ms.
void ProcessTable::after_reaping() {
  for (uint32_t i = 0; i < used_; ++i) {
    if (processes_[i].awaits_group && processes_[i].life == Life::Reaped) on_group(i);
  }
}

// Reaped, its tree gone if that was wanted, and what it wrote in the ring: only then has it ended.
void ProcessTable::finish(Process& process) {
  if (process.life != Life::Reaped || process.awaits_group) return;
  for (const Output& out : process.out) {
    if (!out.eof && (holds(process) || out.ring.end() < out.drain_to)) return;
  }
  process.life = Life::Ended;
  process.deadline_us = 0;
  wire::ExitedBody& exited = process.exited;
  for (int which = 0; which < 2; ++which) {
    exited.end_offset[which] = process.out[which].ring.end();
    exited.lost[which] = process.out[which].ring.lost();
  }
  if (oom_kills() > process.oom_kills) exited.flags |= wire::kExitOomKilled;
  if (process.group != GroupPool::kNone) exited.tree_cpu_us = groups_.cpu_us(process.group);
  if (process.in.fd >= 0 && !process.in.terminal) input_close(process.in, poller_);
}

uint64_t ProcessTable::next_deadline() const {
  uint64_t nearest = 0;
  const auto consider = [&](uint64_t at) {
    if (at != 0 && (nearest == 0 || at < nearest)) nearest = at;
  };
  for (uint32_t i = 0; i < used_; ++i) {
    const Process& process = processes_[i];
    consider(process.deadline_us);
    if (process.awaits_group) consider(process.kill_again_us);
  }
  return nearest;
}

void ProcessTable::on_deadlines(uint64_t now) {
  for (uint32_t i = 0; i < used_; ++i) {
    Process& process = processes_[i];
    if (process.awaits_group && process.kill_again_us <= now) kill_again(process);
    if (process.deadline_us == 0 || process.deadline_us > now) continue;
    const bool warned = process.timed_out;
    process.timed_out = true;
    if (process.life == Life::Reaped) {
      end_held(process);
      continue;
    }
    if (process.grace_ms != 0 && !warned) {
      process.deadline_us = now + process.grace_ms * uint64_t{1000};
      kill(-process.pid, SIGTERM);
      continue;
    }
    process.deadline_us = 0;
    process.exited.flags |= wire::kExitTreeKilled;
    kill_tree(process);
  }
}

void ProcessTable::kill_again(Process& process) {
  process.kill_again_us = now_us() + kKillAgainUs;
  if (groups_.populated(process.group)) {
    groups_.kill(process.group);
  } else {
    on_group(index_of(process));
  }
}

// The process has ended in time, and what it left behind held its output for too long. No warning:
// the process that it would go to is gone.
void ProcessTable::end_held(Process& process) {
  process.deadline_us = 0;
  process.exited.flags |= wire::kExitTimedOut | wire::kExitTreeKilled;
  kill_tree(process);
  if (process.group != GroupPool::kNone && groups_.populated(process.group)) return;
  process.awaits_group = false;
  set_drain_target(process, 0);
  set_drain_target(process, 1);
  finish(process);
}

// Gives everything back, or leaves a drain behind when somebody still holds a pipe.
void ProcessTable::release(Process& process) {
  if (process.report >= 0) poller_.remove(process.report);
  close_fd(process.report);
  input_close(process.in, poller_);
  if (process.group_armed) poller_.remove(groups_.events(process.group));
  process.group_armed = false;
  if (process.group != GroupPool::kNone) groups_.release(process.group);
  process.group = GroupPool::kNone;
  process.awaits_group = false;
  bool held = false;
  for (int which = 0; which < 2; ++which) {
    Output& out = process.out[which];
    ring_sum_ -= out.ring.capacity();
    out.ring.close();
    const bool drain =
        process.life == Life::Ended && !out.eof && (process.flags & wire::kStartPty) == 0;
    if (!drain) close_output(process, which);
    if (drain) arm_output(process, which);
    held = held || drain;
  }
  process.id = 0;
  process.attached = false;
  process.life = held ? Life::Draining : Life::Free;
}

// Without groups everybody but us, who are process 1: the kernel leaves that one out.
void ProcessTable::kill_all() {
  if (groups_.present()) return groups_.kill_all();
  (void)kill(-1, SIGKILL);
}

}  // namespace caisson::init
