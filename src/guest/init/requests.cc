// One frame of the host, handed to whom it concerns.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "guest/init/init.h"
#include "guest/init/sys.h"

namespace caisson::init {
namespace {

using wire::Bytes;
using wire::Check;
using wire::FrameHeader;
using wire::Kind;
using wire::Step;

void refuse_check(Init& init, Kind kind, uint32_t id, Check check) {
  const bool too_much = check == Check::TooMuch;
  init.link.failed(kind, id, too_much ? E2BIG : EINVAL, too_much ? Step::Limit : Step::Request);
}

bool id_is_free(Init& init, uint32_t id) {
  return id != 0 && init.processes.find(id) == nullptr && !init.operations.known(id);
}

void start(Init& init, uint32_t id, Bytes payload) {
  wire::StartView view;
  const Check check = wire::parse_start(payload, view);
  if (check != Check::Ok) return refuse_check(init, Kind::Start, id, check);
  if (!id_is_free(init, id)) return init.link.failed(Kind::Start, id, EEXIST, Step::Request);
  init.processes.start(id, view);
}

void operate(Init& init, uint32_t id, Bytes payload) {
  wire::OpView view;
  const Check check = wire::parse_op(payload, view);
  if (check != Check::Ok) return refuse_check(init, Kind::Op, id, check);
  if (!id_is_free(init, id)) return init.link.failed(Kind::Op, id, EEXIST, Step::Request);
  int socket = -1;
  if ((view.body.flags & wire::kOpSocket) != 0) {
    socket = init.link.take_descriptor();
    if (!is_stream_socket(socket)) {
      close_fd(socket);
      return init.link.failed(Kind::Op, id, EBADF, Step::Request);
    }
  }
  init.operations.start(id, view, socket);
}

bool commit(Init& init, uint32_t id, Bytes payload) {
  wire::CommitBody body{};
  return wire::parse_exact(payload, body) && init.operations.commit(id, body);
}

// Data and credit may cross the end of what they are for: then they are simply late.
bool flow(Init& init, const FrameHeader& header, Bytes payload) {
  Process* process = init.processes.find(header.id);
  const auto stream = static_cast<wire::Stream>(header.stream);
  if (static_cast<Kind>(header.kind) == Kind::Credit) {
    wire::CreditBody body{};
    if (!wire::parse_exact(payload, body)) return false;
    if (process != nullptr) init.processes.credit(*process, stream, body.bytes);
    if (process == nullptr) init.operations.credit(header.id, body.bytes);
    return true;
  }
  if (stream != wire::Stream::Input) return false;
  if (static_cast<Kind>(header.kind) == Kind::Eof) {
    if (process != nullptr) init.processes.input_eof(*process);
    if (process == nullptr) init.operations.input_eof(header.id);
    return true;
  }
  if (process == nullptr) return init.operations.input(header.id, payload);
  if (!init.processes.input(*process, payload)) return false;
  input_credit(process->in, init.link, process->id);
  return true;
}

// Requests about one process that must exist.
bool about_process(Init& init, const FrameHeader& header, Bytes payload) {
  const Kind kind = static_cast<Kind>(header.kind);
  Process* process = init.processes.find(header.id);
  if (process == nullptr) {
    init.link.failed(kind, header.id, ESRCH, Step::Request);
    return true;
  }
  wire::SignalBody signal{};
  wire::ResizeBody resize{};
  wire::AttachBody attach{};
  switch (kind) {
    case Kind::Signal:
      if (!wire::parse_exact(payload, signal)) return false;
      init.processes.signal(*process, signal);
      return true;
    case Kind::Resize:
      if (!wire::parse_exact(payload, resize)) return false;
      init.processes.resize(*process, resize);
      return true;
    case Kind::Attach:
      if (!wire::parse_exact(payload, attach)) return false;
      init.processes.attach(*process, attach);
      return true;
    case Kind::Detach:
      init.processes.detach(*process);
      return true;
    case Kind::Forget:
      init.processes.forget(*process);
      return true;
    default:
      return false;
  }
}

void pong(Init& init, uint32_t id, Bytes payload) {
  uint8_t* at = init.link.frame(Kind::Pong, 0, id, payload.size);
  if (payload.size != 0) memcpy(at, payload.data, payload.size);
}

}  // namespace

bool handle_request(Init& init, const FrameHeader& header, Bytes payload) {
  switch (static_cast<Kind>(header.kind)) {
    case Kind::Start:
      start(init, header.id, payload);
      return true;
    case Kind::Op:
      operate(init, header.id, payload);
      return true;
    case Kind::Data:
    case Kind::Eof:
    case Kind::Credit:
      return flow(init, header, payload);
    case Kind::Signal:
    case Kind::Resize:
    case Kind::Attach:
    case Kind::Detach:
    case Kind::Forget:
      return about_process(init, header, payload);
    case Kind::List:
      init.processes.list(header.id);
      return true;
    case Kind::Cancel:
      init.operations.cancel(header.id);
      return true;
    case Kind::Commit:
      return commit(init, header.id, payload);
    case Kind::Ping:
      pong(init, header.id, payload);
      return true;
    case Kind::Shutdown:
      init.processes.kill_all();
      _exit(0);
    default:
      return false;
  }
}

}  // namespace caisson::init
