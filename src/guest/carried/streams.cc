#include "guest/carried/streams.h"

#include <errno.h>
#include <string.h>

namespace caisson::carried {

using wire::Bytes;
using wire::FrameHeader;
using wire::Kind;

namespace {

constexpr uint32_t kWindowStep = wire::kCarriedWindow / 4;
constexpr int kFramesPerTurn = 2;  // of one connection, before the next one speaks

template <class T>
constexpr T smaller(T a, T b) {
  return a < b ? a : b;
}

bool later(long result) { return result == -EAGAIN || result == -EINTR; }

}  // namespace

uint32_t Streams::id_of(uint32_t index) const {
  if (index < wire::kCarriedMax) return wire::kCarriedId | index;
  return wire::kCarriedId | wire::kCarriedHostId | (index - wire::kCarriedMax);
}

// kNone when there can be no such connection.
uint32_t Streams::index_of(uint32_t id) const {
  if ((id & wire::kCarriedId) == 0) return kNone;
  const uint32_t number = id & ~(wire::kCarriedId | wire::kCarriedHostId);
  const bool host = (id & wire::kCarriedHostId) != 0;
  if (number >= (host ? wire::kCarriedHostMax : wire::kCarriedMax)) return kNone;
  return host ? wire::kCarriedMax + number : number;
}

bool Streams::is_ours(uint32_t index) const {
  return (index < wire::kCarriedMax) == (side_ == Side::Guest);
}

uint32_t Streams::allot() const {
  const uint32_t first = side_ == Side::Guest ? 0 : wire::kCarriedMax;
  const uint32_t last = side_ == Side::Guest ? wire::kCarriedMax : kSlots;
  for (uint32_t index = first; index < last; ++index) {
    if (streams_[index].state == State::Free) return index;
  }
  return kNone;
}

void Streams::begin(uint32_t index, const wire::Endpoint& to) {
  Stream& stream = streams_[index];
  stream = Stream();
  stream.state = State::Begun;
  stream.socket = true;
  stream.window = wire::kCarriedWindow;
  stream.to = to;
  ++count_;
  if (index >= used_) used_ = index + 1;
}

void Streams::forget() {
  for (uint32_t index = 0; index < used_; ++index) {
    drop_socket(index, true);
    streams_[index] = Stream();
  }
  count_ = 0;
  waits_ = false;
}

// ---------------------------------------------------------------------------------- the socket

void Streams::watch(uint32_t index) {
  Stream& stream = streams_[index];
  const bool dialing = stream.state == State::Dialing;
  const bool reads = stream.socket && stream.state == State::Stands && !stream.may_read &&
                     stream.credit != 0 && !stream.source_ended;
  const bool writes = stream.socket && (dialing || stream.size != 0);
  if (reads == stream.reads && writes == stream.writes) return;
  stream.reads = reads;
  stream.writes = writes;
  sockets_.watch(index, reads, writes);
}

void Streams::drop_socket(uint32_t index, bool reset) {
  Stream& stream = streams_[index];
  if (!stream.socket) return;
  if (stream.reads || stream.writes) sockets_.watch(index, false, false);
  sockets_.close(index, reset);
  stream.socket = stream.reads = stream.writes = false;
  if (stream.holds) sockets_.emptied(held(index), wire::kCarriedWindow);
  stream.holds = false;
  stream.begin = stream.size = 0;
}

// Something here is broken: the other side hears of it, and nothing more.
void Streams::fail(uint32_t index, int sys_errno) {
  Stream& stream = streams_[index];
  drop_socket(index, true);
  if (stream.close_sent) return settle(index);
  if (stream.sys_errno == 0) stream.sys_errno = sys_errno;
  stream.owes_close = true;
  settle(index);
}

void Streams::readable(uint32_t index) {
  Stream& stream = streams_[index];
  if (!stream.socket) return;
  stream.may_read = true;
  watch(index);
}

void Streams::dialled(uint32_t index, int sys_errno) {
  Stream& stream = streams_[index];
  if (stream.state != State::Dialing) return;
  if (sys_errno != 0) return fail(index, sys_errno);
  stream.state = State::Stands;
  stream.owes_opened = true;
  watch(index);
}

void Streams::writable(uint32_t index) {
  if (streams_[index].socket) push(index);
}

// Gives the socket what it takes.
void Streams::push(uint32_t index) {
  Stream& stream = streams_[index];
  while (stream.size != 0) {
    const uint32_t run = smaller(stream.size, wire::kCarriedWindow - stream.begin);
    const long written = sockets_.write(index, held(index) + stream.begin, run);
    if (later(written) || written == 0) break;
    if (written < 0) return fail(index, static_cast<int>(-written));
    const auto size = static_cast<uint32_t>(written);
    stream.begin = (stream.begin + size) % wire::kCarriedWindow;
    stream.size -= size;
    stream.consumed += size;
  }
  settle(index);
}

void Streams::keep(uint32_t index, Bytes bytes) {
  Stream& stream = streams_[index];
  stream.holds = stream.holds || bytes.size != 0;
  for (size_t done = 0; done < bytes.size;) {
    const uint32_t at = (stream.begin + stream.size) % wire::kCarriedWindow;
    const size_t run = smaller<size_t>(bytes.size - done, wire::kCarriedWindow - at);
    memcpy(held(index) + at, bytes.data + done, run);
    stream.size += static_cast<uint32_t>(run);
    done += run;
  }
}

// What follows from what has become known.
void Streams::settle(uint32_t index) {
  Stream& stream = streams_[index];
  if (stream.socket && stream.end_heard && stream.size == 0 && !stream.end_passed) {
    stream.end_passed = true;
    sockets_.end(index);
  }
  if (stream.end_sent && stream.end_passed && !stream.close_sent) stream.owes_close = true;
  if (stream.owes_close && stream.socket) drop_socket(index, false);
  if (stream.close_sent && stream.close_heard) {
    drop_socket(index, false);
    stream = Stream();
    --count_;
    return;
  }
  watch(index);
}

// ---------------------------------------------------------------------------------- frames in

bool Streams::take_open(uint32_t index, Bytes payload) {
  Stream& stream = streams_[index];
  wire::OpenBody body{};
  if (is_ours(index) || stream.state != State::Free) return false;
  if (!wire::parse_exact(payload, body) || !wire::is_endpoint(body.to)) return false;
  if (body.window > wire::kCarriedWindow) return false;
  stream = Stream();
  stream.state = State::Dialing;
  stream.socket = true;
  stream.credit = body.window;
  stream.window = wire::kCarriedWindow;
  ++count_;
  if (index >= used_) used_ = index + 1;
  const long dialled_at_once = sockets_.dial(index, body.to);
  if (dialled_at_once == -EINPROGRESS) {
    watch(index);
    return true;
  }
  if (dialled_at_once < 0) stream.socket = false;
  dialled(index, static_cast<int>(-dialled_at_once));
  return true;
}

bool Streams::take_bytes(uint32_t index, Bytes payload) {
  Stream& stream = streams_[index];
  if (stream.state != State::Stands || stream.end_heard || payload.size > stream.window)
    return false;
  stream.window -= static_cast<uint32_t>(payload.size);
  if (!stream.socket) return true;  // it broke while they were on their way
  if (stream.size == 0) {
    const long written = sockets_.write(index, payload.data, payload.size);
    if (written < 0 && !later(written)) {
      fail(index, static_cast<int>(-written));
      return true;
    }
    const size_t done = written > 0 ? static_cast<size_t>(written) : 0;
    stream.consumed += static_cast<uint32_t>(done);
    payload = {payload.data + done, payload.size - done};
  }
  keep(index, payload);
  watch(index);
  return true;
}

bool Streams::take_known(Kind kind, uint32_t index, Bytes payload) {
  Stream& stream = streams_[index];
  // What was under way when this side said its last word is nobody's.
  const bool over = stream.close_sent && kind != Kind::Close;
  if (over) return true;
  wire::CreditBody credit{};
  wire::CloseBody close{};
  switch (kind) {
    case Kind::Opened:
      if (!wire::parse_exact(payload, credit) || stream.state != State::Asked) return false;
      if (credit.bytes > wire::kCarriedWindow) return false;
      stream.state = State::Stands;
      stream.credit = credit.bytes;
      stream.may_read = true;  // asking the socket is how to learn
      return true;
    case Kind::Bytes:
      return take_bytes(index, payload);
    case Kind::Window:
      if (!wire::parse_exact(payload, credit) || stream.state != State::Stands) return false;
      if (credit.bytes > wire::kCarriedWindow - stream.credit) return false;
      if (stream.credit == 0) stream.may_read = true;
      stream.credit += credit.bytes;
      return true;
    case Kind::End:
      if (stream.state != State::Stands || stream.end_heard) return false;
      stream.end_heard = true;
      settle(index);
      return true;
    case Kind::Close:
      if (!wire::parse_exact(payload, close)) return false;
      stream.close_heard = true;
      // Before both ends it is the other side's failure, and this socket's peer feels it. Behind
      // them, what waits here still goes to the socket.
      if (close.sys_errno != 0 || !stream.end_heard || !stream.end_sent) {
        drop_socket(index, true);
        stream.owes_close = !stream.close_sent;
      }
      settle(index);
      return true;
    default:
      return false;
  }
}

bool Streams::take(const FrameHeader& header, Bytes payload) {
  const uint32_t index = index_of(header.id);
  if (index == kNone) return false;
  const Kind kind = static_cast<Kind>(header.kind);
  if (kind == Kind::Open) return take_open(index, payload);
  const Stream& stream = streams_[index];
  const bool known = stream.state != State::Free && stream.state != State::Begun;
  if (!known || stream.close_heard) return false;
  return take_known(kind, index, payload);
}

// --------------------------------------------------------------------------------- frames out

bool Streams::send(Outlet& outlet, Kind kind, uint32_t index, const void* body, size_t size) {
  uint8_t* at = outlet.reserve(sizeof(FrameHeader) + size);
  if (at == nullptr) return false;
  const FrameHeader header{static_cast<uint32_t>(size), static_cast<uint16_t>(kind), 0,
                           id_of(index)};
  memcpy(at, &header, sizeof(header));
  if (size != 0) memcpy(at + sizeof(header), body, size);
  outlet.commit(sizeof(header) + size);
  return true;
}

// One frame of what the socket has. False when there is no room.
bool Streams::pump_bytes(uint32_t index, Outlet& outlet) {
  Stream& stream = streams_[index];
  const size_t most = smaller(stream.credit, wire::kDataMax);
  uint8_t* at = outlet.reserve(sizeof(FrameHeader) + most);
  if (at == nullptr) return false;
  const long got = sockets_.read(index, at + sizeof(FrameHeader), most);
  if (got > 0) {
    const FrameHeader header{static_cast<uint32_t>(got), static_cast<uint16_t>(Kind::Bytes), 0,
                             id_of(index)};
    memcpy(at, &header, sizeof(header));
    outlet.commit(sizeof(header) + static_cast<size_t>(got));
    stream.credit -= static_cast<uint32_t>(got);
  } else if (got == 0) {
    stream.source_ended = true;
    stream.may_read = false;
  } else if (later(got)) {
    stream.may_read = false;
  } else {
    fail(index, static_cast<int>(-got));
  }
  return true;
}

// What one connection owes. False when there was no room for it.
bool Streams::pump_one(uint32_t index, Outlet& outlet) {
  Stream& stream = streams_[index];
  if (stream.state == State::Free || stream.close_sent) return true;
  if (stream.state == State::Begun && !stream.owes_close) {
    const wire::OpenBody body{stream.to, stream.window};
    if (!send(outlet, Kind::Open, index, &body, sizeof(body))) return false;
    stream.state = State::Asked;
  }
  if (stream.owes_opened && !stream.owes_close) {
    const wire::CreditBody body{stream.window, 0};
    if (!send(outlet, Kind::Opened, index, &body, sizeof(body))) return false;
    stream.owes_opened = false;
    stream.may_read = true;
  }
  const bool speaks = stream.state == State::Stands && !stream.owes_opened;
  if (speaks && !stream.owes_close && !stream.end_heard &&
      (stream.consumed >= kWindowStep || (stream.consumed != 0 && stream.size == 0))) {
    const wire::CreditBody body{stream.consumed, 0};
    if (!send(outlet, Kind::Window, index, &body, sizeof(body))) return false;
    stream.window += stream.consumed;
    stream.consumed = 0;
  }
  for (int i = 0; i < kFramesPerTurn && speaks && stream.socket && stream.may_read &&
                  stream.credit != 0 && !stream.source_ended;
       ++i) {
    if (!pump_bytes(index, outlet)) return false;
  }
  if (speaks && stream.source_ended && !stream.end_sent && !stream.owes_close) {
    if (!send(outlet, Kind::End, index, nullptr, 0)) return false;
    stream.end_sent = true;
    settle(index);
  }
  if (stream.owes_close) {
    const wire::CloseBody body{stream.sys_errno, 0};
    if (!send(outlet, Kind::Close, index, &body, sizeof(body))) return false;
    stream.close_sent = true;
    stream.owes_close = false;
    settle(index);
    return true;
  }
  watch(index);
  return true;
}

// Each in its turn, until nobody has anything that is new, or there is no room.
void Streams::pump(Outlet& outlet) {
  waits_ = false;
  uint32_t idle = 0;
  while (idle < used_) {
    if (next_ >= used_) next_ = 0;
    Stream& stream = streams_[next_];
    waits_ = !pump_one(next_, outlet);
    if (waits_) return;
    const bool more = stream.state == State::Stands && stream.socket && stream.may_read &&
                      stream.credit != 0 && !stream.source_ended;
    idle = more ? 0 : idle + 1;
    ++next_;
  }
}

}  // namespace caisson::carried
