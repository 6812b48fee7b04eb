#include "guest/init/op_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/init/capabilities.h"
#include "guest/init/child.h"
#include "guest/init/sys.h"

namespace caisson::init {
namespace {

using wire::EntryType;
using wire::Kind;
using wire::OpKind;
using wire::Step;

constexpr int kFdSocket = 3;
constexpr int kFdInput = 4;
// A search obeys a pattern from outside. What it may use is bounded, so that a hostile one ends
// itself and nothing else.
constexpr uint64_t kSearchMemoryMax = 128UL * 1024 * 1024;
constexpr uint64_t kSearchSecondsMax = 30;
constexpr uint64_t kSearchSecondsGrace = 2;

// The one thing that a signal handler has to know; a process per operation makes it safe to be
// global.
struct Temporary {
  int folder = -1;
  char name[64] = {};
};
Temporary g_temporary;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): see above

void remove_temporary() {
  if (g_temporary.folder >= 0) unlinkat(g_temporary.folder, g_temporary.name, 0);
  g_temporary.folder = -1;
}

void on_cancel(int) {
  remove_temporary();
  _exit(1);
}

OpChannel* g_channel =
    nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): likewise

void on_cpu_limit(int) {
  g_channel->fail_at_once(ETIME, Step::Limit, "the search takes too much processor time");
}

long limit_search() {
  struct sigaction action{};
  action.sa_handler = on_cpu_limit;
  sigaction(SIGXCPU, &action, nullptr);
  const rlimit memory{kSearchMemoryMax, kSearchMemoryMax};
  if (setrlimit(RLIMIT_AS, &memory) != 0) return -errno;
  const rlimit time{kSearchSecondsMax, kSearchSecondsMax + kSearchSecondsGrace};
  return setrlimit(RLIMIT_CPU, &time) != 0 ? -errno : 0;
}

long answer(long result) { return result < 0 ? -errno : result; }

// Only the ids that files are judged by change. The process keeps init's own, so that no tenant may
// signal or stop it.
long take_file_ids(const OpRequest& request) {
  if (request.config->has(wire::kConfigSingleId)) return 0;
  if (syscall(SYS_setgroups, 0, nullptr) != 0) return -errno;
  syscall(SYS_setfsgid, request.body.gid);
  syscall(SYS_setfsuid, request.body.uid);
  // These two report the old id and never an error: asking again tells whether they worked.
  const bool taken = syscall(SYS_setfsgid, -1) == static_cast<long>(request.body.gid) &&
                     syscall(SYS_setfsuid, -1) == static_cast<long>(request.body.uid);
  if (taken) return 0;
  if (!request.config->carried) return -EPERM;
  // A kernel without these ids judges files by the effective ones. Who may signal us is decided by
  // the real and the saved ones, which stay.
  if (syscall(SYS_setresgid, -1, request.body.gid, -1) != 0) return -errno;
  return answer(syscall(SYS_setresuid, -1, request.body.uid, -1));
}

// Nothing of init's stays open but what this operation needs; the ruleset goes once it is applied.
long keep_descriptors(const OpRequest& request) {
  if (dup2(request.socket, kFdSocket) < 0) return -errno;
  if (request.input >= 0 && dup2(request.input, kFdInput) < 0) return -errno;
  const long closed = close_from(request.input >= 0 ? kFdInput + 1 : kFdInput, kFdRuleset - 1);
  return closed < 0 ? closed : close_from(kFdRuleset + 1, ~0U);
}

long confine(const OpRequest& request) {
  const Config& config = *request.config;
  long done = limit_child(config);
  if (done >= 0) done = take_file_ids(request);
  if (done >= 0) done = keep_capabilities(file_capabilities(config, request.body.uid));
  if (done >= 0) done = answer(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  if (done >= 0 && config.landlock) done = landlock_restrict_self(kFdRuleset);
  if (done >= 0) done = close_from(kFdRuleset, kFdRuleset);
  if (done >= 0 && config.filter.len != 0) done = install_filter(&config.filter);
  return done;
}

void catch_signals() {
  struct sigaction action{};
  action.sa_handler = on_cancel;
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, nullptr);  // a file size limit is an error to report, not a death
  sigaction(SIGPIPE, &action, nullptr);
}

uint32_t type_of(mode_t mode) {
  EntryType type = EntryType::Other;
  if (S_ISREG(mode)) type = EntryType::File;
  if (S_ISDIR(mode)) type = EntryType::Folder;
  if (S_ISLNK(mode)) type = EntryType::Link;
  if (S_ISFIFO(mode)) type = EntryType::Fifo;
  if (S_ISSOCK(mode)) type = EntryType::Socket;
  if (S_ISCHR(mode) || S_ISBLK(mode)) type = EntryType::Device;
  return static_cast<uint32_t>(type);
}

}  // namespace

void temporary_set(int folder, const char* name) {
  strncpy(g_temporary.name, name, sizeof(g_temporary.name) - 1);
  g_temporary.folder = folder;
}

void temporary_clear() { g_temporary.folder = -1; }

uint8_t* OpChannel::body_of(Kind kind, uint16_t stream, size_t size) {
  const wire::FrameHeader header{static_cast<uint32_t>(size), static_cast<uint16_t>(kind), stream,
                                 0};
  if (sizeof(message_) - message_size_ < sizeof(header) + size) send_message();
  uint8_t* at = message_ + message_size_;
  memcpy(at, &header, sizeof(header));
  message_size_ += sizeof(header) + size;
  return at + sizeof(header);
}

void OpChannel::send_message() {
  while (message_size_ != 0) {
    const ssize_t sent = send(socket_, message_, message_size_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) on_cancel(0);  // init is gone or wants no more
    message_size_ = 0;
  }
}

void OpChannel::wait_for_credit() {
  while (credit_ == 0) {
    wire::CreditBody body{};
    const ssize_t got = recv(socket_, &body, sizeof(body), 0);
    if (got == sizeof(body)) credit_ += body.bytes;
    if (got == 0 || (got < 0 && errno != EINTR)) on_cancel(0);
  }
}

void OpChannel::data(uint64_t offset, const void* bytes, size_t size) {
  const uint8_t* from = static_cast<const uint8_t*>(bytes);
  while (size > 0) {
    wait_for_credit();
    const size_t part = smaller<uint64_t>(smaller<uint64_t>(size, wire::kDataMax), credit_);
    const wire::DataHeader header{offset};
    uint8_t* at =
        body_of(Kind::Data, static_cast<uint16_t>(wire::Stream::Output), sizeof(header) + part);
    memcpy(at, &header, sizeof(header));
    memcpy(at + sizeof(header), from, part);
    send_message();
    credit_ -= part;
    offset += part;
    from += part;
    size -= part;
  }
}

void OpChannel::entry(const struct stat& info, const char* name, const char* target,
                      uint32_t depth) {
  entry(info, {reinterpret_cast<const uint8_t*>(name), strnlen(name, wire::kPathMax)}, target,
        depth);
}

void OpChannel::entry(const struct stat& info, wire::Bytes name, const char* target,
                      uint32_t depth) {
  wire::EntryBody body{};
  body.type = type_of(info.st_mode);
  body.mode = info.st_mode & 07777U;
  body.uid = info.st_uid;
  body.gid = info.st_gid;
  body.size = static_cast<uint64_t>(info.st_size);
  body.mtime_ns = info.st_mtim.tv_sec * int64_t{1000000000} + info.st_mtim.tv_nsec;
  body.ctime_ns = info.st_ctim.tv_sec * int64_t{1000000000} + info.st_ctim.tv_nsec;
  body.inode = info.st_ino;
  body.links = static_cast<uint32_t>(info.st_nlink);
  body.depth = depth;
  body.name_size = static_cast<uint32_t>(name.size);
  body.target_size = static_cast<uint32_t>(strnlen(target, wire::kPathMax));
  uint8_t* at = body_of(Kind::Entry, 0, sizeof(body) + body.name_size + body.target_size);
  memcpy(at, &body, sizeof(body));
  memcpy(at + sizeof(body), name.data, body.name_size);
  memcpy(at + sizeof(body) + body.name_size, target, body.target_size);
}

void OpChannel::match(uint64_t line, const char* name, const char* text, size_t text_size) {
  const wire::MatchBody body{line, static_cast<uint32_t>(strnlen(name, wire::kPathMax)),
                             static_cast<uint32_t>(text_size)};
  uint8_t* at = body_of(Kind::Match, 0, sizeof(body) + body.name_size + text_size);
  memcpy(at, &body, sizeof(body));
  memcpy(at + sizeof(body), name, body.name_size);
  memcpy(at + sizeof(body) + body.name_size, text, text_size);
}

void OpChannel::event(uint32_t mask, uint32_t cookie, const char* name) {
  wire::EventBody body{mask, cookie, static_cast<uint32_t>(strnlen(name, wire::kPathMax)), 0};
  uint8_t* at = body_of(Kind::Event, 0, sizeof(body) + body.name_size);
  memcpy(at, &body, sizeof(body));
  memcpy(at + sizeof(body), name, body.name_size);
  send_message();
}

size_t OpChannel::read(void* to, size_t size) {
  for (;;) {
    const ssize_t got = ::read(input_, to, size);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) fail(errno, Step::Io);
  }
}

void OpChannel::await_commit(uint64_t bytes) {
  OpCommit message{};
  ssize_t got = 0;
  do {
    got = recv(socket_, &message, sizeof(message), 0);
    if (got == 0 || (got < 0 && errno != EINTR)) on_cancel(0);
  } while (got != sizeof(message) || message.kind != static_cast<uint64_t>(Kind::Commit));
  if (message.body.bytes != bytes) fail(EIO, Step::Io, "not all bytes have arrived");
}

void OpChannel::done(uint64_t bytes, uint64_t count) {
  const wire::DoneBody body{bytes, count};
  memcpy(body_of(Kind::Done, 0, sizeof(body)), &body, sizeof(body));
  send_message();
  _exit(0);
}

void OpChannel::fail(int sys_errno, Step step, const char* text) {
  remove_temporary();
  const size_t text_size = strnlen(text, wire::kFailureTextMax);
  const wire::FailedBody body{sys_errno, static_cast<uint32_t>(step),
                              static_cast<uint32_t>(text_size), 0};
  uint8_t* at = body_of(Kind::Failed, 0, sizeof(body) + text_size);
  memcpy(at, &body, sizeof(body));
  memcpy(at + sizeof(body), text, text_size);
  send_message();
  _exit(0);
}

void OpChannel::fail_at_once(int sys_errno, Step step, const char* text) {
  message_size_ = 0;  // what was gathered may be half written
  fail(sys_errno, step, text);
}

void run_operation(const OpRequest& request) {
  const long kept = keep_descriptors(request);
  if (kept < 0) _exit(1);
  static OpChannel channel(kFdSocket, kFdInput, request.body.window_bytes);
  g_channel = &channel;
  catch_signals();
  const auto kind = static_cast<OpKind>(request.body.op);
  const bool searches = kind == OpKind::Find || kind == OpKind::Grep;
  const long limited = searches ? limit_search() : 0;
  if (limited < 0) channel.fail(static_cast<int>(-limited), Step::Rlimit);
  const long confined = confine(request);
  if (confined < 0) channel.fail(static_cast<int>(-confined), Step::Ids);
  if (reset_signals() < 0) channel.fail(EINVAL, Step::Session);
  umask(0);  // each new file's mode is said, not derived
  switch (kind) {
    case OpKind::Stat:
      op_stat(channel, request);
    case OpKind::List:
      op_list(channel, request);
    case OpKind::Read:
      op_read(channel, request);
    case OpKind::Write:
      op_write(channel, request);
    case OpKind::Mkdir:
      op_mkdir(channel, request);
    case OpKind::Move:
      op_move(channel, request);
    case OpKind::Remove:
      op_remove(channel, request);
    case OpKind::Watch:
      op_watch(channel, request);
    case OpKind::TarOut:
      op_tar_out(channel, request);
    case OpKind::TarIn:
      op_tar_in(channel, request);
    case OpKind::Pack:
      op_pack(channel, request);
    case OpKind::Find:
      op_find(channel, request);
    case OpKind::Grep:
      op_grep(channel, request);
    case OpKind::Resolve:
      op_resolve(channel, request);
    case OpKind::Ports:
      op_ports(channel);
  }
  channel.fail(EINVAL, Step::Request);
}

}  // namespace caisson::init
