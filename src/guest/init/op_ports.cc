// Ports: where somebody listens, as the kernel's own list of this network says.
//
// A line of it is "  12: 0100007F:1F90 00000000:0000 0A …": a number, the local address and port in
// hexadecimal (each word of the address as the processor has it), the peer's, and the state.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "guest/init/op_child.h"
#include "guest/init/ports.h"

namespace caisson::init {

using wire::Step;

namespace {

// Every line of the file, however it is cut into reads. A line that is longer than any the kernel
// writes is left out.
void read_lines(int fd, PortSet& ports) {
  static char buffer[16 * 1024];
  size_t held = 0;
  for (;;) {
    const ssize_t got = read(fd, buffer + held, sizeof(buffer) - held);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    held += static_cast<size_t>(got);
    size_t begin = 0;
    while (const void* found = memchr(buffer + begin, '\n', held - begin)) {
      const auto end = static_cast<size_t>(static_cast<const char*>(found) - buffer);
      ports.take({buffer + begin, end - begin});
      begin = end + 1;
    }
    held -= begin;
    memmove(buffer, buffer + begin, held);
    if (held == sizeof(buffer)) held = 0;
  }
}

}  // namespace

void op_ports(OpChannel& channel) {
  static PortSet ports;
  constexpr const char* kTables[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
  for (const char* name : kTables) {
    const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 && errno == ENOENT) continue;  // a kernel without IPv6
    if (fd < 0) channel.fail(errno, Step::Io);
    if (!on_proc(fd)) channel.fail(EACCES, Step::Io, "what stands at /proc is not procfs");
    read_lines(fd, ports);
    close(fd);
  }
  static uint8_t bytes[2 * wire::kPortsMax];
  const uint32_t count = ports.write(bytes);
  if (count > 0) channel.data(0, bytes, 2UL * count);
  channel.done(2UL * count, count);
}

}  // namespace caisson::init
