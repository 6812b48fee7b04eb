// init behind another kernel: no control socket, no descriptor from outside, one stream for life.
// What the launcher has to say comes from the carrier as frames between those of the server.
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "guest/init/init.h"
#include "guest/init/sys.h"

namespace caisson::init {
namespace {

using wire::Bytes;
using wire::FrameHeader;
using wire::Kind;
using wire::Scan;
using wire::Step;

constexpr unsigned kMemoryMajor = 1;
constexpr unsigned kNull = 3;
constexpr unsigned kRandom = 8;

// A device by its number: what stands at a path may be the guest's.
int open_memory_device(const char* path, int how, unsigned minor_number) {
  int fd = open(path, how | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
  struct stat info{};
  if (fd >= 0 && fstat(fd, &info) == 0 && S_ISCHR(info.st_mode) &&
      info.st_rdev == makedev(kMemoryMajor, minor_number))
    return fd;
  const bool other = fd >= 0;
  close_fd(fd);
  if (other) errno = ENODEV;
  return -1;
}

// The stream leaves 0 and 1, which are the null device in every child.
StartFailure take_streams(Connection& link, Connection::Life life) {
  const int input = fcntl(0, F_DUPFD_CLOEXEC, kFdFirstFree);
  const int output = fcntl(1, F_DUPFD_CLOEXEC, kFdFirstFree);
  if (input < 0 || output < 0) return {errno, Step::Stdio};
  link.carry(input, output, life);
  int null = open_memory_device("/dev/null", O_RDWR, kNull);
  if (null < 0) return {errno, Step::Stdio};
  for (int fd = 0; fd <= 2; ++fd) {
    if (dup2(null, fd) < 0) return {errno, Step::Stdio};
  }
  close_fd(null);
  return {};
}

// Blocks until the next whole frame. The carrier does not break frames: if one is broken, or the
// stream has ended, there is no sandbox.
FrameHeader next_frame(Init& init, Bytes& payload) {
  for (;;) {
    FrameHeader header{};
    const Scan scan = init.link.next(header, payload);
    if (scan == Scan::Frame) return header;
    if (scan == Scan::Bad) end_sandbox(init);
    if (!init.link.flush()) end_sandbox(init);
    init.link.wait();
    if (init.link.receive() == Connection::Read::Closed) end_sandbox(init);
  }
}

void flush_all(Init& init) {
  while (init.link.flush() && !init.link.flushed()) init.link.wait();
}

// Our own list of what is at /etc: the guest's folder, and our rights are greater than a tenant's,
// so no link is followed and nothing is made.
bool write_machine_id(const uint8_t* seed) {
  int fd = open("/etc/machine-id", O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  struct stat info{};
  char text[33];
  for (size_t i = 0; i < 16; ++i) {
    text[2 * i] = "0123456789abcdef"[seed[i] >> 4U];
    text[2 * i + 1] = "0123456789abcdef"[seed[i] & 15U];
  }
  text[32] = '\n';
  const bool plain =
      fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1;
  const bool written = plain && ftruncate(fd, 0) == 0 &&
                       write(fd, text, sizeof(text)) == static_cast<ssize_t>(sizeof(text));
  close_fd(fd);
  return written;
}

// Two copies of one machine would give the same random bytes.
bool mix_in(const uint8_t* seed, size_t size) {
  int fd = open_memory_device("/dev/random", O_RDWR, kRandom);
  if (fd < 0) return false;
  struct {  // rand_pool_info
    int entropy_bits;
    int size;
    uint8_t bytes[wire::kSeedBytes];
  } pool{};
  if (size > sizeof(pool.bytes)) size = sizeof(pool.bytes);
  pool.entropy_bits = static_cast<int>(8 * size);
  pool.size = static_cast<int>(size);
  memcpy(pool.bytes, seed, size);
  const bool mixed = ioctl(fd, RNDADDENTROPY, &pool) == 0 && ioctl(fd, RNDRESEEDCRNG) == 0;
  close_fd(fd);
  return mixed;
}

void identify(Init& init, Bytes payload) {
  wire::IdentityView view;
  if (!wire::parse_identity(payload, view)) end_sandbox(init);
  // The machine's id is told to everybody inside: it is no part of what the kernel gets.
  constexpr size_t kForKernel = wire::kSeedBytes - 16;
  wire::DoneBody done{};
  if (view.hostname.size != 0 &&
      sethostname(reinterpret_cast<const char*>(view.hostname.data), view.hostname.size) == 0)
    done.bytes |= wire::kIdentityHostname;
  if (write_machine_id(view.body.seed + kForKernel)) done.bytes |= wire::kIdentityMachineId;
  if (mix_in(view.body.seed, kForKernel)) done.bytes |= wire::kIdentitySeed;
  init.link.done(Kind::Identity, 0, done);
  // Of a copy that goes on: now that it is nobody's twin. In one that is held, nobody goes on yet.
  if (!init.held) init.groups.thaw_all();
}

bool is_config(Bytes message) {
  wire::ControlHeader header{};
  memcpy(&header, message.data, sizeof(header));
  return header.kind == static_cast<uint32_t>(wire::ControlKind::Config);
}

// A configuration may bring ports; one that brings none takes none away.
StartFailure open_ports(Init& init, Bytes message) {
  wire::ConfigView view;
  if (wire::parse_config(message, view) != wire::Check::Ok) return {EINVAL, Step::Request};
  return init.network.open(view.config, view.ports);
}

// Another root, or another carrier: what there was of a server is nobody's then.
void reconfigured(Init& init, Bytes message) {
  StartFailure read = reconfigure(init.config, message);
  if (read.ok()) read = open_ports(init, message);
  if (!read.ok()) give_up_carried(init, read);
  if (is_config(message)) {
    peer_left(init);
    init.network.forget();
  }
  init.link.done(Kind::Configure, 0);
}

// Tenants stand still where that can be done, and what this kernel has held back is given out.
// Nothing is said or done from here on: who copies this guest now finds both directions of the
// stream between two frames. In the copy, which hears a configuration, tenants go on behind the
// Identity or Release that follows: nobody runs with the name and random numbers of another.
void hold(Init& init) {
  const bool still = init.groups.freeze_all();
  if (still) {
    sync();
    init.link.done(Kind::Hold, 0);
  } else {
    init.link.failed(Kind::Hold, 0, EBUSY, Step::Group);
  }
  flush_all(init);
  for (init.held = true; init.held;) {
    Bytes payload;
    const FrameHeader header = next_frame(init, payload);
    switch (static_cast<Kind>(header.kind)) {
      case Kind::Release:
        init.held = false;
        init.groups.thaw_all();
        break;
      case Kind::Configure:
        reconfigured(init, payload);
        init.held = false;
        if (!is_config(payload)) init.groups.thaw_all();
        break;
      case Kind::Identity:
        identify(init, payload);
        flush_all(init);
        break;
      case Kind::EndProcesses:
        init.processes.kill_all();
        init.operations.end_all();
        break;
      case Kind::Shutdown:
        end_sandbox(init);
      default:
        break;
    }
  }
  init.link.forget_events();
}

}  // namespace

void give_up_carried(Init& init, StartFailure failure) {
  init.link.failed(Kind::Configure, 0, failure.sys_errno, failure.step);
  flush_all(init);
  _exit(1);
}

void begin_carried(Init& init, Connection::Life life) {
  if (!init.poller.open() || !init.link.open_buffers()) _exit(1);
  const StartFailure taken = take_streams(init.link, life);
  if (!taken.ok()) give_up_carried(init, taken);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) give_up_carried(init, {errno, Step::Ids});
  if (!reserve_descriptors()) give_up_carried(init, {errno, Step::Stdio});
  init.config.carried = true;
  Bytes message;
  const FrameHeader header = next_frame(init, message);
  if (static_cast<Kind>(header.kind) != Kind::Configure)
    give_up_carried(init, {EINVAL, Step::Request});
  const StartFailure configured = configure(init.config, message, wire::ControlKind::Config);
  if (!configured.ok()) give_up_carried(init, configured);
  wire::ConfigView view;
  (void)wire::parse_config(message, view);
  memcpy(init.first_ports, view.ports.data, view.ports.size);
}

void open_network(Init& init) {
  StartFailure failure{ENOMEM, Step::Limit};
  if (init.network.open_table()) {
    const Bytes ports{reinterpret_cast<const uint8_t*>(init.first_ports),
                      init.config.wire.port_count * sizeof(uint16_t)};
    failure = init.network.open(init.config.wire, ports);
  }
  if (!failure.ok()) give_up_carried(init, failure);
}

bool handle_carried(Init& init, const FrameHeader& header, Bytes payload) {
  wire::ResetBody token{};
  StartFailure read;
  switch (static_cast<Kind>(header.kind)) {
    case Kind::Reset:
      if (!wire::parse_exact(payload, token)) end_sandbox(init);
      init.processes.peer_left();
      init.operations.peer_left();
      init.link.resume(token, init.config.wire.nonce);
      return true;
    case Kind::Configure:
      // The rules and ports alone: only a copy, which is held, may get the rest anew.
      if (is_config(payload)) give_up_carried(init, {EINVAL, Step::Request});
      read = reconfigure(init.config, payload);
      if (read.ok()) read = open_ports(init, payload);
      if (!read.ok()) give_up_carried(init, read);
      init.link.done(Kind::Configure, 0);
      return true;
    case Kind::Identity:
      identify(init, payload);
      return true;
    case Kind::Open:
    case Kind::Opened:
    case Kind::Bytes:
    case Kind::Window:
    case Kind::End:
    case Kind::Close:
    case Kind::Datagram:
      if (!init.network.take(header, payload)) end_sandbox(init);
      return true;
    case Kind::Hold:
      hold(init);
      return true;
    case Kind::Release:
      // Of one that goes on elsewhere as who it was: a copy has an Identity instead.
      init.groups.thaw_all();
      return true;
    case Kind::EndProcesses:
      init.processes.kill_all();
      init.operations.end_all();
      return true;
    case Kind::Shutdown:
      end_sandbox(init);
    default:
      return false;
  }
}

}  // namespace caisson::init
