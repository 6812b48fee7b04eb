// What the host asks of a process that exists.
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "guest/init/process.h"
#include "guest/init/sys.h"
#include "guest/init/tree.h"

namespace caisson::init {

using wire::Kind;
using wire::SignalTarget;
using wire::Step;

namespace {

constexpr uint64_t kCreditMax = uint64_t{1}
                                << 40U;  // more than anybody reads; keeps the sum from wrapping
constexpr uint32_t kSignalMax = 64;

}  // namespace

Process* ProcessTable::find(uint32_t id) {
  if (id == 0) return nullptr;
  for (uint32_t i = 0; i < used_; ++i) {
    if (processes_[i].life != Life::Free && processes_[i].id == id) return &processes_[i];
  }
  return nullptr;
}

void ProcessTable::signal(Process& process, const wire::SignalBody& body) {
  const auto refuse = [&](int error) {
    link_.failed(Kind::Signal, process.id, error, Step::Request);
  };
  if (body.number == 0 || body.number > kSignalMax) return refuse(EINVAL);
  const int number = static_cast<int>(body.number);
  const bool running = process.life == Life::Running;
  int failed = 0;
  switch (static_cast<SignalTarget>(body.target)) {
    case SignalTarget::Process:
      // Not reaped yet, so the pid is still its own.
      failed = !running ? ESRCH : (kill(process.pid, number) != 0 ? errno : 0);
      break;
    case SignalTarget::Foreground: {
      int foreground = process.pid;
      const bool terminal = (process.flags & wire::kStartPty) != 0 && process.out[0].fd >= 0;
      if (process.in.keys && running) {
        signal_terminal(process, number);
        break;
      }
      if (terminal && ioctl(process.out[0].fd, TIOCGPGRP, &foreground) != 0)
        foreground = process.pid;
      if (foreground <= 1) foreground = process.pid;
      failed = !running ? ESRCH : (kill(-foreground, number) != 0 ? errno : 0);
      break;
    }
    case SignalTarget::Tree:
      if (process.group == GroupPool::kNone) {
        failed =
            tree_signal(process.pid, number, number == SIGKILL && alone(process)) > 0 ? 0 : ESRCH;
      } else if (number == SIGKILL) {
        failed = groups_.kill(process.group) ? 0 : EIO;
      } else {
        failed = groups_.signal(process.group, number) > 0 ? 0 : ESRCH;
      }
      break;
    default:
      return refuse(EINVAL);
  }
  if (failed != 0) return refuse(failed);
  link_.done(Kind::Signal, process.id);
}

void ProcessTable::resize(Process& process, const wire::ResizeBody& body) {
  const bool terminal = (process.flags & wire::kStartPty) != 0 && process.out[0].fd >= 0;
  if (!terminal) return link_.failed(Kind::Resize, process.id, ENOTTY, Step::Request);
  winsize size{};
  size.ws_row = body.rows;
  size.ws_col = body.columns;
  if (ioctl(process.out[0].fd, TIOCSWINSZ, &size) != 0) {
    return link_.failed(Kind::Resize, process.id, errno, Step::Io);
  }
  if (process.in.keys) signal_terminal(process, SIGWINCH);
  link_.done(Kind::Resize, process.id);
}

void ProcessTable::attach(Process& process, const wire::AttachBody& body) {
  process.attached = true;
  process.exited_sent = false;
  for (int which = 0; which < 2; ++which) {
    Output& out = process.out[which];
    out.sent = larger(smaller(body.offset[which], out.ring.end()), out.ring.begin());
    out.credit = body.window_bytes;
    out.eof_sent = out.ring.capacity() == 0;  // a stream that never was
    arm_output(process, which);
  }
  link_.done(Kind::Attach, process.id, wire::DoneBody{process.in.window, 0});
}

void ProcessTable::detach(Process& process) {
  process.attached = false;
  arm_output(process, 0);
  arm_output(process, 1);
  link_.done(Kind::Detach, process.id);
}

void ProcessTable::forget(Process& process) {
  if (process.life != Life::Ended)
    return link_.failed(Kind::Forget, process.id, EBUSY, Step::Request);
  link_.done(Kind::Forget, process.id);
  release(process);
}

void ProcessTable::list(uint32_t id) {
  uint64_t count = 0;
  const uint64_t now = now_us();
  for (uint32_t i = 0; i < used_; ++i) {
    const Process& process = processes_[i];
    if (process.life == Life::Free || process.life == Life::Draining) continue;
    wire::ListEntryBody body{};
    body.process = process.id;
    body.pid = process.pid;
    const bool ended = process.life == Life::Ended;
    body.state =
        static_cast<uint32_t>(ended ? wire::ProcessState::Ended : wire::ProcessState::Running);
    body.flags = process.flags;
    body.age_us = now - process.start_us;
    for (int which = 0; which < 2; ++which) {
      body.begin[which] = process.out[which].ring.begin();
      body.end[which] = process.out[which].ring.end();
    }
    if (ended) body.exited = process.exited;
    body.name_size = static_cast<uint32_t>(strlen(process.name));
    uint8_t* at = link_.frame(Kind::ListEntry, 0, id, sizeof(body) + body.name_size);
    memcpy(at, &body, sizeof(body));
    memcpy(at + sizeof(body), process.name, body.name_size);
    ++count;
  }
  link_.done(Kind::List, id, wire::DoneBody{0, count});
}

// To whoever is in the foreground of a terminal that tells only its own session who that is.
void ProcessTable::signal_terminal(Process& process, int number) {
  const auto word = static_cast<uint8_t>(number);
  if (process.attendant >= 0 && write(process.words, &word, 1) == 1) return;
  if (process.life == Life::Running) (void)kill(-process.pid, number);
}

// Makes signals of the keys that stand for them, and gives what the terminal shall have. All else
// that the kernel's line discipline would do with such a key (echo, flush) is left out.
wire::Bytes ProcessTable::take_keys(Process& process, wire::Bytes bytes) {
  static uint8_t kept[wire::kPayloadMax];
  termios settings{};
  if (tcgetattr(process.in.fd, &settings) != 0 || (settings.c_lflag & ISIG) == 0) return bytes;
  if (bytes.size > sizeof(kept)) return bytes;
  size_t size = 0;
  for (size_t i = 0; i < bytes.size; ++i) {
    const uint8_t byte = bytes.data[i];
    int number = 0;
    if (byte == settings.c_cc[VINTR]) number = SIGINT;
    if (byte == settings.c_cc[VQUIT]) number = SIGQUIT;
    if (byte == settings.c_cc[VSUSP]) number = SIGTSTP;
    if (byte == 0 || number == 0) {
      kept[size++] = byte;
    } else {
      signal_terminal(process, number);
    }
  }
  return {kept, size};
}

Attendant* ProcessTable::call_attendant(Process& process, int terminal) {
  for (size_t i = 0; attendants_ != nullptr && i < kAttendantsMax; ++i) {
    if (attendants_[i].used != 0) continue;
    attendants_[i].used = 1;
    attendants_[i].pid = 0;
    attendants_[i].terminal = terminal;
    process.attendant = static_cast<int>(i);
    return &attendants_[i];
  }
  return nullptr;  // then the keys go to the session's first group
}

// The session's first process is gone. It is ours and nobody else's to stop, so it dies at once.
void ProcessTable::dismiss_attendant(Process& process) {
  close_fd(process.words);
  if (process.attendant < 0) return;
  Attendant& attendant = attendants_[process.attendant];
  process.attendant = -1;
  const int pid = __atomic_load_n(&attendant.pid, __ATOMIC_ACQUIRE);
  if (pid > 0 && kill(pid, SIGKILL) == 0) (void)waitpid(pid, nullptr, __WALL);
  attendant.used = 0;
}

bool ProcessTable::input(Process& process, wire::Bytes bytes) {
  if (process.in.keys) {
    // What became a signal was taken, too.
    const wire::Bytes kept = take_keys(process, bytes);
    const auto keys = static_cast<uint32_t>(bytes.size - kept.size);
    if (bytes.size > process.in.window) return false;
    process.in.window -= keys;
    process.in.consumed += keys;
    bytes = kept;
  }
  return input_take(process.in, poller_, Source::Input, index_of(process), bytes) == Take::Ok;
}

void ProcessTable::input_eof(Process& process) {
  process.in.closing = true;
  input_push(process.in, poller_, Source::Input, index_of(process));
}

void ProcessTable::on_input(uint32_t index) {
  Process& process = processes_[index];
  if (process.life == Life::Free) return;
  input_push(process.in, poller_, Source::Input, index);
  if (link_.up()) input_credit(process.in, link_, process.id);
}

void ProcessTable::credit(Process& process, wire::Stream stream, uint32_t bytes) {
  if (stream == wire::Stream::Input) return;
  Output& out = process.out[stream == wire::Stream::Output ? 0 : 1];
  out.credit = smaller(out.credit + bytes, kCreditMax);
}

// Nobody is attached any more: full rings begin to overwrite, so every source is read again.
void ProcessTable::peer_left() {
  for (uint32_t i = 0; i < used_; ++i) {
    if (processes_[i].life == Life::Free) continue;
    processes_[i].attached = false;
    // Bytes in flight are gone with the peer: the next one begins with the whole window.
    Input& input = processes_[i].in;
    if (input.window + input.consumed + input.size != 0)
      input.window = wire::kInputWindow - input.size;
    input.consumed = 0;
    arm_output(processes_[i], 0);
    arm_output(processes_[i], 1);
  }
}

}  // namespace caisson::init
