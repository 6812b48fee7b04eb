#include "guest/init/operation.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/init/sys.h"

namespace caisson::init {

using wire::Kind;
using wire::OpKind;
using wire::Step;

namespace {

constexpr uint64_t kCancelGraceUs = 2'000'000;  // to remove a temporary file
constexpr size_t kRelayRoom = kOpMessageMax + Connection::kReplyRoom;
constexpr int kRelaysPerEvent = 16;

bool is_answer(uint16_t kind) {
  return kind == static_cast<uint16_t>(Kind::Done) || kind == static_cast<uint16_t>(Kind::Failed);
}

void copy_path(char to[wire::kPathMax + 1], wire::Bytes from) {
  if (from.size != 0) memcpy(to, from.data, from.size);
  to[from.size] = '\0';
}

}  // namespace

OperationTable::Operation* OperationTable::find(uint32_t id) {
  for (Operation& operation : operations_) {
    if (operation.used && !operation.silent && operation.id == id) return &operation;
  }
  return nullptr;
}

void OperationTable::start(uint32_t id, const wire::OpView& view, int socket) {
  static OpRequest request;  // read by the child, so not on a stack it would unwind
  Operation* operation = nullptr;
  for (Operation& slot : operations_) {
    if (!slot.used) operation = &slot;
  }
  const bool straight = socket >= 0;
  int sockets[2] = {-1, -1};
  int pipes[2] = {socket, -1};
  if (operation == nullptr) {
    close_fd(pipes[0]);
    return link_.failed(Kind::Op, id, EAGAIN, Step::Limit);
  }
  bool opened = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0;
  if (opened && wire::takes_input(static_cast<OpKind>(view.body.op)) && !straight) {
    opened = pipe2(pipes, O_CLOEXEC) == 0 && fcntl(pipes[1], F_SETFL, O_NONBLOCK) == 0;
  }
  long pid = opened ? 0 : -errno;
  if (opened) {
    request.config = &config_;
    request.body = view.body;
    copy_path(request.path, view.path);
    copy_path(request.path2, view.path2);
    request.socket = sockets[1];
    request.input = pipes[0];
    pid = fork_into(kNoGroup);
    if (pid == 0) run_operation(request);
  }
  close_fd(sockets[1]);
  close_fd(pipes[0]);
  if (pid < 0) {
    close_fd(sockets[0]);
    close_fd(pipes[1]);
    return link_.failed(Kind::Op, id, static_cast<int>(-pid), opened ? Step::Fork : Step::Pipe);
  }
  *operation = Operation();
  operation->used = true;
  operation->id = id;
  operation->pid = static_cast<int>(pid);
  operation->socket = sockets[0];
  operation->in.fd = pipes[1];
  operation->in.window = pipes[1] >= 0 ? wire::kInputWindow : 0;
  operation->uncommitted = straight;
  watch_socket(*operation, true);
}

void OperationTable::watch_socket(Operation& operation, bool wanted) {
  if (wanted == operation.armed || operation.socket < 0) return;
  operation.armed = wanted;
  if (wanted) {
    poller_.add(operation.socket, EPOLLIN, Source::OpSocket, index_of(operation));
  } else {
    poller_.remove(operation.socket);
  }
}

namespace {

// Whether a message is whole frames and nothing else.
bool is_frames(const uint8_t* message, size_t size) {
  size_t at = 0;
  while (at < size) {
    wire::FrameHeader header{};
    if (size - at < sizeof(header)) return false;
    memcpy(&header, message + at, sizeof(header));
    at += sizeof(header);
    if (size - at < header.size) return false;
    at += header.size;
  }
  return size != 0;
}

}  // namespace

// Puts the id into each frame, up to the answer. Gives how much of the message that is.
size_t OperationTable::stamp(Operation& operation, uint8_t* message, size_t size) {
  size_t at = 0;
  while (at < size && !operation.answered) {
    wire::FrameHeader header{};
    memcpy(&header, message + at, sizeof(header));
    operation.answered = is_answer(header.kind);
    header.id = operation.id;
    if (operation.answered) header.stream = static_cast<uint16_t>(Kind::Op);
    memcpy(message + at, &header, sizeof(header));
    at += sizeof(header) + header.size;
  }
  return at;
}

// Moves one message of the child into the outgoing buffer. True when there may be another.
bool OperationTable::relay(Operation& operation) {
  if (link_.up() && !link_.has_room(kRelayRoom)) {
    watch_socket(operation, false);  // pump() watches it again
    return false;
  }
  uint8_t* at = link_.reserve(kOpMessageMax);
  const ssize_t got = recv(operation.socket, at, kOpMessageMax, MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  // The child left credit unread: Linux says so once, before it hands out what the child had sent,
  // and gVisor without end, behind it.
  const bool reset = got < 0 && errno == ECONNRESET;
  const bool again = reset && !operation.reset;
  operation.reset = reset;
  if (again) return true;
  const bool whole = got > 0 && got <= static_cast<ssize_t>(kOpMessageMax);
  if (!whole || !is_frames(at, static_cast<size_t>(got))) {
    watch_socket(operation,
                 false);  // the child is gone, or talks nonsense: reaping it gives the answer
    close_fd(operation.socket);
    if (whole && operation.pid > 0) kill(operation.pid, SIGKILL);
    return false;
  }
  if (operation.answered || operation.cancelled || operation.silent || !link_.up()) return true;
  link_.commit(stamp(operation, at, static_cast<size_t>(got)));
  return true;
}

void OperationTable::on_socket(uint32_t index, uint32_t events) {
  Operation& operation = operations_[index];
  if (!operation.used || operation.socket < 0) return;
  if ((events & EPOLLOUT) != 0) tell_credit(operation);
  for (int i = 0; i < kRelaysPerEvent && operation.socket >= 0 && relay(operation); ++i) {
  }
  settle(operation);
}

void OperationTable::pump() {
  for (Operation& operation : operations_) {
    if (!operation.used || operation.socket < 0) continue;
    if (operation.credit != 0) tell_credit(operation);
    // Asked and not looked up: whoever waits for room must be known to wait in every turn, or the
    // turn in which the last byte leaves goes by without him.
    if (!operation.armed && link_.has_room(kRelayRoom)) watch_socket(operation, true);
  }
}

// The child takes credits whenever it waits for one; until then they add up here.
void OperationTable::tell_credit(Operation& operation) {
  if (operation.socket < 0 || operation.credit == 0) return;
  const wire::CreditBody body{operation.credit, 0};
  if (send(operation.socket, &body, sizeof(body), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(body)) {
    operation.credit = 0;
  }
}

bool OperationTable::input(uint32_t id, wire::Bytes bytes) {
  Operation* operation = find(id);
  if (operation == nullptr) return true;  // it ended while the bytes were on their way
  const uint32_t index = index_of(*operation);
  if (input_take(operation->in, poller_, Source::OpInput, index, bytes) != Take::Ok) return false;
  input_credit(operation->in, link_, id);
  return true;
}

void OperationTable::input_eof(uint32_t id) {
  Operation* operation = find(id);
  if (operation == nullptr) return;
  operation->in.closing = true;
  input_push(operation->in, poller_, Source::OpInput, index_of(*operation));
}

bool OperationTable::commit(uint32_t id, const wire::CommitBody& body) {
  Operation* operation = find(id);
  if (operation == nullptr) return true;  // it failed while the last bytes were on their way
  if (!operation->uncommitted) return false;
  operation->uncommitted = false;
  if (operation->socket < 0) return true;
  const OpCommit message{static_cast<uint64_t>(Kind::Commit), body};
  const ssize_t sent =
      send(operation->socket, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
  // A child that is gone has left its answer. One that lives and cannot be told would wait for
  // ever.
  if (sent < 0 && errno != EPIPE && errno != ECONNRESET) stop(*operation);
  return true;
}

void OperationTable::on_input(uint32_t index) {
  Operation& operation = operations_[index];
  if (!operation.used) return;
  input_push(operation.in, poller_, Source::OpInput, index);
  if (link_.up() && !operation.silent) input_credit(operation.in, link_, operation.id);
}

void OperationTable::credit(uint32_t id, uint32_t bytes) {
  Operation* operation = find(id);
  if (operation == nullptr) return;
  const uint64_t sum = uint64_t{operation->credit} + bytes;
  operation->credit = static_cast<uint32_t>(smaller<uint64_t>(sum, 0xffffffffU));
  tell_credit(*operation);
}

// Asks the child to clean up and go; it is killed if it does not.
void OperationTable::stop(Operation& operation) {
  operation.cancelled = true;
  operation.kill_at_us = now_us() + kCancelGraceUs;
  if (operation.pid > 0) kill(operation.pid, SIGTERM);
}

void OperationTable::cancel(uint32_t id) {
  Operation* operation = find(id);
  // Already answered and waiting to be reaped, or never known: the peer has its answer, or asks for
  // nothing.
  if (operation == nullptr || operation->answered || operation->cancelled) return;
  stop(*operation);
}

bool OperationTable::on_reaped(int pid, int status) {
  for (Operation& operation : operations_) {
    if (!operation.used || operation.pid != pid) continue;
    operation.pid = 0;
    operation.killed = WIFSIGNALED(status);
    // What it said before it went is still in the socket; behind the last of it comes the end of
    // the file.
    while (operation.socket >= 0 && relay(operation)) {
    }
    settle(operation);
    return true;
  }
  return false;
}

// An operation is over when its child is reaped and everything it said has been moved.
void OperationTable::settle(Operation& operation) {
  if (!operation.used || operation.pid != 0 || operation.socket >= 0) return;
  if (!operation.answered && !operation.silent) {
    const char* text =
        operation.killed ? "the operation was killed" : "the operation gave no answer";
    if (operation.cancelled) text = "";
    link_.failed(Kind::Op, operation.id, operation.cancelled ? ECANCELED : EIO, Step::Io, text);
  }
  input_close(operation.in, poller_);
  operation.used = false;
}

uint64_t OperationTable::next_deadline() const {
  uint64_t nearest = 0;
  for (const Operation& operation : operations_) {
    const uint64_t at = operation.used ? operation.kill_at_us : 0;
    if (at != 0 && (nearest == 0 || at < nearest)) nearest = at;
  }
  return nearest;
}

void OperationTable::on_deadlines(uint64_t now) {
  for (Operation& operation : operations_) {
    if (!operation.used || operation.kill_at_us == 0 || operation.kill_at_us > now) continue;
    operation.kill_at_us = 0;
    if (operation.pid > 0) kill(operation.pid, SIGKILL);
  }
}

void OperationTable::end_all() {
  for (Operation& operation : operations_) {
    if (operation.used && !operation.answered && !operation.cancelled) stop(operation);
  }
}

void OperationTable::peer_left() {
  for (Operation& operation : operations_) {
    if (!operation.used) continue;
    operation.silent = true;
    if (!operation.cancelled) stop(operation);
    watch_socket(operation, true);  // to be emptied, so that the child is not stuck in a send
  }
}

}  // namespace caisson::init
