// Bytes on their way into a pipe or a terminal that may not take them at once.
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "guest/init/process.h"
#include "guest/init/sys.h"

namespace caisson::init {
namespace {

constexpr uint8_t kEndOfTransmission = 4;
constexpr uint32_t kCreditStep = wire::kInputWindow / 4;

void drop_held(Input& input) {
  unmap(input.held, wire::kInputWindow);
  input.held = nullptr;
  input.begin = input.size = 0;
}

// Writes what the descriptor takes; gives the count, or -1 when nobody reads any more.
ssize_t offer(int fd, const uint8_t* data, size_t size) {
  const ssize_t written = write(fd, data, size);
  if (written >= 0) return written;
  return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

void arm(Input& input, Poller& poller, Source source, uint32_t index, bool wanted) {
  if (wanted == input.armed) return;
  input.armed = wanted;
  if (wanted) {
    poller.add(input.fd, EPOLLOUT, source, index);
  } else {
    poller.remove(input.fd);
  }
}

}  // namespace

void input_close(Input& input, Poller& poller) {
  if (input.fd >= 0 && input.armed) poller.remove(input.fd);
  input.armed = false;
  close_fd(input.fd);
  input.consumed += input.size;
  drop_held(input);
}

void input_push(Input& input, Poller& poller, Source source, uint32_t index) {
  if (input.fd < 0) return;
  while (input.size != 0) {
    const uint32_t run = smaller(input.size, wire::kInputWindow - input.begin);
    const ssize_t written = offer(input.fd, input.held + input.begin, run);
    if (written < 0) return input_close(input, poller);
    if (written == 0) return arm(input, poller, source, index, true);
    input.begin = (input.begin + static_cast<uint32_t>(written)) % wire::kInputWindow;
    input.size -= static_cast<uint32_t>(written);
    input.consumed += static_cast<uint32_t>(written);
  }
  arm(input, poller, source, index, false);
  drop_held(input);
  if (!input.closing) return;
  if (input.terminal) {
    // A terminal has no end of file of its own: the line discipline makes one of this character.
    if (offer(input.fd, &kEndOfTransmission, 1) == 0)
      return arm(input, poller, source, index, true);
    input.closing = false;
    return;
  }
  input_close(input, poller);
}

Take input_take(Input& input, Poller& poller, Source source, uint32_t index, wire::Bytes bytes) {
  if (bytes.size > input.window) return Take::Overrun;
  const uint32_t size = static_cast<uint32_t>(bytes.size);
  input.window -= size;
  // Whoever does not read any more, or was told that nothing follows, loses the bytes but not the
  // peer's window.
  if (input.fd < 0 || input.closing) {
    input.consumed += size;
    return Take::Ok;
  }
  uint32_t done = 0;
  if (input.size == 0) {
    const ssize_t written = offer(input.fd, bytes.data, size);
    if (written < 0) {
      input_close(input, poller);
      input.consumed += size;
      return Take::Ok;
    }
    done = static_cast<uint32_t>(written);
    input.consumed += done;
  }
  if (done == size) return Take::Ok;
  if (input.held == nullptr) input.held = map_unshared(wire::kInputWindow);
  if (input.held == nullptr) {
    input_close(input, poller);
    input.consumed += size - done;
    return Take::Ok;
  }
  while (done < size) {
    const uint32_t at = (input.begin + input.size) % wire::kInputWindow;
    const uint32_t run = smaller(size - done, wire::kInputWindow - at);
    memcpy(input.held + at, bytes.data + done, run);
    input.size += run;
    done += run;
  }
  arm(input, poller, source, index, true);
  return Take::Ok;
}

void input_credit(Input& input, Connection& link, uint32_t id) {
  if (input.consumed < kCreditStep && !(input.consumed != 0 && input.size == 0)) return;
  const wire::CreditBody body{input.consumed, 0};
  link.send(wire::Kind::Credit, static_cast<uint16_t>(wire::Stream::Input), id, body);
  input.window += input.consumed;
  input.consumed = 0;
}

}  // namespace caisson::init
