// A tenant's output: pipe → ring → Data. And the frames that follow from state: Started, Exited,
// Eof.
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "guest/init/process.h"
#include "guest/init/sys.h"

namespace caisson::init {

using wire::Kind;
using wire::Mode;
using wire::Stream;

namespace {

constexpr uint64_t kTerminalDrainMax = 128UL * 1024;  // a terminal cannot say how much it holds
constexpr int kReadsPerEvent = 4;

uint16_t stream_of(int which) {
  return static_cast<uint16_t>(which == 0 ? Stream::Output : Stream::Error);
}

// The first byte that must not be overwritten. Nobody attached: none. Collected: the ring decides
// by itself.
uint64_t protected_from(const Process& process, const Output& out) {
  const bool waits =
      process.attached && process.mode == Mode::Stream && process.life != Life::Draining;
  return waits ? out.sent : out.ring.end();
}

}  // namespace

void ProcessTable::arm_output(Process& process, int which) {
  Output& out = process.out[which];
  if (out.armed || out.fd < 0) return;
  out.armed = true;
  poller_.add(out.fd, EPOLLIN, which == 0 ? Source::Output : Source::Error, index_of(process));
}

void ProcessTable::disarm_output(Process& process, int which) {
  Output& out = process.out[which];
  if (!out.armed) return;
  out.armed = false;
  poller_.remove(out.fd);
}

void ProcessTable::close_output(Process& process, int which) {
  disarm_output(process, which);
  close_fd(process.out[which].fd);
  process.out[which].eof = true;
}

// Reads once. True when there may be more.
bool ProcessTable::read_output(Process& process, int which) {
  Output& out = process.out[which];
  if (out.fd < 0) return false;
  if (!out.ring.mapped()) return read_unmapped(process, which);
  Span spans[2];
  const int count = out.ring.writable(protected_from(process, out), spans);
  if (count == 0) {
    disarm_output(process, which);  // pump() arms it again when the peer has taken something
    return false;
  }
  const iovec pieces[2] = {{spans[0].data, spans[0].size}, {spans[1].data, spans[1].size}};
  const ssize_t got = readv(out.fd, pieces, count);
  if (got <= 0) {
    read_nothing(process, which, got, errno);
    return false;
  }
  out.ring.wrote(static_cast<size_t>(got));
  return true;
}

// The first read goes to the stack: most streams end without a byte, and need no ring. A drain
// never has one.
bool ProcessTable::read_unmapped(Process& process, int which) {
  Output& out = process.out[which];
  uint8_t first[4096];
  const ssize_t got = read(out.fd, first, smaller<size_t>(sizeof(first), wire::kRingBytesMin));
  if (got <= 0) {
    read_nothing(process, which, got, errno);
    return false;
  }
  size_t done = 0;
  while (process.life != Life::Draining && done < static_cast<size_t>(got)) {
    Span spans[2];
    if (out.ring.writable(out.ring.end(), spans) == 0) break;  // no memory: the bytes are lost
    const size_t part = smaller(spans[0].size, static_cast<size_t>(got) - done);
    memcpy(spans[0].data, first + done, part);
    out.ring.wrote(part);
    done += part;
  }
  return true;
}

void ProcessTable::read_nothing(Process& process, int which, long got, int error) {
  Output& out = process.out[which];
  if (got < 0 && (error == EAGAIN || error == EINTR)) {
    // An empty terminal has nothing in flight either: reading flushes its queue first.
    if (process.life == Life::Reaped && !holds(process)) out.drain_to = out.ring.end();
    return;
  }
  close_output(process, which);  // end of file; EIO is how a terminal says it
}

void ProcessTable::on_output(uint32_t index, int which) {
  Process& process = processes_[index];
  if (process.life == Life::Free) return;
  for (int i = 0; i < kReadsPerEvent && read_output(process, which); ++i) {
  }
  if (process.life == Life::Reaped) finish(process);
  if (process.life == Life::Draining && process.out[0].eof && process.out[1].eof) release(process);
}

// Everything that is in the pipe now belongs to the process that just ended; later bytes are its
// children's.
void ProcessTable::set_drain_target(Process& process, int which) {
  Output& out = process.out[which];
  out.drain_to = out.ring.end();
  if (out.fd < 0) return;
  int waiting = 0;
  if ((process.flags & wire::kStartPty) != 0) {
    out.drain_to += kTerminalDrainMax;
  } else if (ioctl(out.fd, FIONREAD, &waiting) == 0 && waiting > 0) {
    out.drain_to += static_cast<uint64_t>(waiting);
  }
  while (out.ring.end() < out.drain_to && read_output(process, which)) {
  }
  // One more look usually finds the end of the file, which saves a turn of the loop.
  if (out.fd >= 0 && out.ring.end() >= out.drain_to) read_output(process, which);
}

// The exec happened: before anything of the process is sent, the peer hears of it.
void ProcessTable::announce(Process& process) {
  if (process.started) return;
  process.started = true;
  poller_.remove(process.report);
  close_fd(process.report);
  if (!link_.up()) return;
  const wire::StartedBody body{process.pid, 0};
  link_.send(Kind::Started, 0, process.id, body);
}

void ProcessTable::on_report(uint32_t index) {
  Process& process = processes_[index];
  if (process.life == Life::Free || process.report < 0) return;
  if (failures_[index].step != 0) {
    poller_.remove(process.report);  // the child is about to be reaped, and that sends the failure
    close_fd(process.report);
    return;
  }
  announce(process);
}

// Sends one Data frame. True when another could follow.
bool ProcessTable::pump_output(Process& process, int which) {
  Output& out = process.out[which];
  const bool collect = process.mode == Mode::Collect;
  if (collect && process.life != Life::Ended) return false;
  uint64_t offset = out.sent;
  const Span held = out.ring.readable(offset);
  uint64_t size = smaller<uint64_t>(held.size, wire::kDataMax);
  if (!collect) size = smaller(size, out.credit);
  if (size == 0) return false;
  const wire::DataHeader header{offset};
  uint8_t* at = link_.frame(Kind::Data, stream_of(which), process.id, sizeof(header) + size);
  memcpy(at, &header, sizeof(header));
  memcpy(at + sizeof(header), held.data, size);
  if (!collect) out.credit -= size;
  out.sent = offset + size;
  out.ring.consumed(out.sent);
  arm_output(process, which);
  return true;
}

// Sends what one process has to say, one frame per stream. True when it has more.
bool ProcessTable::pump_one(Process& process) {
  if (process.id == 0 || !process.attached || process.life == Life::Free) return false;
  if (!process.started) {
    if (process.out[0].ring.end() + process.out[1].ring.end() == 0 && process.life == Life::Running)
      return false;
    announce(process);
  }
  const bool more_output = pump_output(process, 0);
  const bool more_error = pump_output(process, 1);
  if (more_output || more_error) return true;
  const bool collect = process.mode == Mode::Collect;
  if (process.life == Life::Ended && !process.exited_sent) {
    link_.send(Kind::Exited, 0, process.id, process.exited);
    process.exited_sent = true;
  }
  bool all_told = process.exited_sent;
  for (int which = 0; which < 2 && !collect; ++which) {
    Output& out = process.out[which];
    if (out.eof && !out.eof_sent && out.sent >= out.ring.end()) {
      link_.frame(Kind::Eof, stream_of(which), process.id, 0);
      out.eof_sent = true;
    }
    all_told = all_told && out.eof_sent;
  }
  if (all_told && (process.flags & wire::kStartAutoForget) != 0) release(process);
  return false;
}

// Round-robin, so that one talkative process does not silence the others.
void ProcessTable::pump() {
  constexpr size_t kRoundRoom =
      2 * (sizeof(wire::FrameHeader) + sizeof(wire::DataHeader) + wire::kDataMax) + 4096;
  uint32_t idle = 0;
  while (link_.up() && idle < used_ && link_.has_room(kRoundRoom + Connection::kReplyRoom)) {
    next_ = (next_ + 1) % used_;
    idle = pump_one(processes_[next_]) ? 0 : idle + 1;
  }
}

}  // namespace caisson::init
