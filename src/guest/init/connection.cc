#include "guest/init/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/init/sys.h"

namespace caisson::init {

using wire::FrameHeader;
using wire::Kind;
using wire::Scan;

namespace {

// A port has no event for somebody who comes; and should a kernel between us and the host forget to
// say that there is room again, then not for longer than this.
constexpr uint64_t kAbsentLookUs = 20'000;
constexpr uint64_t kFullLookUs = 100'000;

}  // namespace

bool Connection::open_buffers() {
  in_ = map_unshared(kInBytes);
  out_ = map_unshared(kOutBytes + kFrameBytesMax);  // the last part is where an overflow goes
  return in_ != nullptr && out_ != nullptr;
}

void Connection::attach(int fd, const uint8_t nonce[wire::kNonceBytes]) {
  drop();
  fd_ = fd;
  watched_ = EPOLLIN;
  poller_.add(fd_, watched_, Source::Link);
  hello(nonce);
}

void Connection::carry(int input, int output, Life life) {
  fd_ = input;
  output_ = output;
  life_ = life;
  (void)fcntl(fd_, F_SETFL, O_NONBLOCK);
  (void)fcntl(output_, F_SETFL, O_NONBLOCK);
}

void Connection::resume(const wire::ResetBody& token, const uint8_t nonce[wire::kNonceBytes]) {
  peer_ = true;
  owes_dropped_ = false;
  send(Kind::Resumed, 0, 0, token);
  hello(nonce);
}

void Connection::drop() {
  if (carried()) {
    owes_dropped_ = owes_dropped_ || peer_;
    peer_ = overflowed_ = false;
    return;
  }
  if (fd_ >= 0) poller_.remove(fd_);
  close_fd(fd_);
  close_fd(passed_);
  close_fd(current_);
  overflowed_ = false;
  in_begin_ = in_end_ = 0;
  out_begin_ = out_end_ = 0;
}

void Connection::hello(const uint8_t nonce[wire::kNonceBytes]) {
  wire::HelloBody body{};
  body.version = wire::kVersion;
  memcpy(body.nonce, nonce, wire::kNonceBytes);
  send(Kind::Hello, 0, 0, body);
}

// Whether a descriptor is here whose request waits for room to be answered. If there is no such
// request, it came with half of one, which no peer of ours does.
bool Connection::descriptor_waits() {
  if (passed_ < 0) return false;
  FrameHeader header{};
  if (wire::scan_request({in_ + in_begin_, in_end_ - in_begin_}, header) == Scan::Frame)
    return true;
  close_fd(passed_);
  return false;
}

Connection::Read Connection::receive() {
  if (descriptor_waits()) return Read::Nothing;
  if (in_begin_ == in_end_) in_begin_ = in_end_ = 0;
  if (kInBytes - in_end_ < kInBytes / 4 && in_begin_ > 0) {
    memmove(in_, in_ + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  // While requests wait for room to answer them, the buffer may fill: the peer then waits in its
  // own socket.
  if (kInBytes - in_end_ < kReadRoom) return Read::Nothing;
  // The kernel ends a read behind the message that brought a descriptor.
  if (carried()) return read_carried();
  const ssize_t got = receive_with_descriptor(fd_, in_ + in_end_, kInBytes - in_end_, passed_);
  if (got > 0) {
    in_end_ += static_cast<size_t>(got);
    passed_at_ = in_end_;
    return Read::Some;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Read::Nothing;
  return Read::Closed;
}

Connection::Read Connection::read_carried() {
  const ssize_t got = read(fd_, in_ + in_end_, kInBytes - in_end_);
  absent_ = false;
  if (got > 0) {
    in_end_ += static_cast<size_t>(got);
    return Read::Some;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Read::Nothing;
  if (life_ == Life::Stream) return Read::Closed;
  // Whoever comes begins with a whole frame.
  absent_ = true;
  in_begin_ = in_end_ = 0;
  return Read::Nothing;
}

Scan Connection::next(FrameHeader& header, wire::Bytes& payload) {
  close_fd(current_);
  const wire::Bytes held{in_ + in_begin_, in_end_ - in_begin_};
  const Scan scan =
      carried() ? wire::scan_carried_request(held, header) : wire::scan_request(held, header);
  if (scan != Scan::Frame) return scan;
  payload = wire::Bytes{held.data + sizeof(header), header.size};
  in_begin_ += sizeof(header) + header.size;
  if (passed_ >= 0 && in_begin_ == passed_at_) {
    current_ = passed_;
    passed_ = -1;
  }
  return scan;
}

int Connection::take_descriptor() {
  const int fd = current_;
  current_ = -1;
  return fd;
}

uint8_t* Connection::reserve(size_t size) {
  if (out_begin_ == out_end_) out_begin_ = out_end_ = 0;
  if (room() < size) {
    overflowed_ = true;
    return out_ + kOutBytes;
  }
  if (kOutBytes - out_end_ < size) {
    memmove(out_, out_ + out_begin_, out_end_ - out_begin_);
    out_end_ -= out_begin_;
    out_begin_ = 0;
  }
  return out_ + out_end_;
}

uint8_t* Connection::frame(Kind kind, uint16_t stream, uint32_t id, size_t size) {
  uint8_t* at = reserve(sizeof(FrameHeader) + size);
  const FrameHeader header{static_cast<uint32_t>(size), static_cast<uint16_t>(kind), stream, id};
  memcpy(at, &header, sizeof(header));
  if (!overflowed_) commit(sizeof(header) + size);
  return at + sizeof(header);
}

void Connection::done(Kind request, uint32_t id, wire::DoneBody body) {
  send(Kind::Done, static_cast<uint16_t>(request), id, body);
}

void Connection::failed(Kind request, uint32_t id, int sys_errno, wire::Step step,
                        const char* text) {
  if (!open()) return;
  const size_t text_size = strnlen(text, wire::kFailureTextMax);
  const wire::FailedBody body{sys_errno, static_cast<uint32_t>(step),
                              static_cast<uint32_t>(text_size), 0};
  uint8_t* at = frame(Kind::Failed, static_cast<uint16_t>(request), id, sizeof(body) + text_size);
  memcpy(at, &body, sizeof(body));
  memcpy(at + sizeof(body), text, text_size);
}

void Connection::watch(int fd, uint32_t events, bool& watched, bool wanted) {
  if (wanted == watched) return;
  watched = wanted;
  if (wanted) poller_.add(fd, events, Source::Link);
  if (!wanted) poller_.remove(fd);
}

void Connection::forget_events() {
  watch(fd_, EPOLLIN, reads_, false);
  watch(output_, EPOLLOUT, writes_, false);
}

void Connection::wait() const {
  // Of a port where nobody is the kernel says without end that it has hung up.
  if (absent_) {
    (void)poll(nullptr, 0, static_cast<int>(kAbsentLookUs / 1000));
    return;
  }
  pollfd both[2] = {{fd_, POLLIN, 0}, {output_, POLLOUT, 0}};
  (void)poll(both, flushed() ? 1 : 2, flushed() ? -1 : static_cast<int>(kFullLookUs / 1000));
}

// Each direction is a descriptor of its own in the epoll set, and only while it is wanted: that one
// has hung up is reported in any case.
bool Connection::flush_carried() {
  if (owes_dropped_ && room() >= sizeof(FrameHeader)) {
    owes_dropped_ = false;
    frame(Kind::Dropped, 0, 0, 0);
  }
  while (!flushed()) {
    const ssize_t sent = write(output_, out_ + out_begin_, out_end_ - out_begin_);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN && life_ == Life::Stream) return false;
    if (sent <= 0) break;
    out_begin_ += static_cast<size_t>(sent);
  }
  watch(fd_, EPOLLIN, reads_, !absent_ && room() >= kReplyRoom);
  watch(output_, EPOLLOUT, writes_, !absent_ && !flushed());
  look_at_us_ = 0;
  if (absent_ || !flushed()) look_at_us_ = now_us() + (absent_ ? kAbsentLookUs : kFullLookUs);
  return true;
}

bool Connection::flush() {
  if (fd_ < 0) return true;
  if (carried()) return !overflowed_ && flush_carried();
  if (overflowed_) return false;
  while (out_begin_ < out_end_) {
    const ssize_t sent =
        ::send(fd_, out_ + out_begin_, out_end_ - out_begin_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent < 0) break;
    out_begin_ += static_cast<size_t>(sent);
  }
  // Without room for an answer no request is taken, so none is asked for: a level-triggered EPOLLIN
  // would spin.
  uint32_t wanted = room() >= kReplyRoom ? EPOLLIN : 0U;
  if (out_begin_ < out_end_) wanted |= EPOLLOUT;
  if (wanted != watched_) {
    watched_ = wanted;
    poller_.change(fd_, watched_, Source::Link);
  }
  return true;
}

}  // namespace caisson::init
