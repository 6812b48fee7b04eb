#include "guest/carrier/core.h"

#include <errno.h>
#include <string.h>

namespace caisson::carrier {

using wire::Bytes;
using wire::ControlKind;
using wire::FrameHeader;
using wire::Kind;
using wire::Scan;

namespace {

bool answers(const FrameHeader& header, Kind request) {
  return header.stream == static_cast<uint16_t>(request);
}

// Done and Failed of what only a carrier asks.
bool is_own_answer(const FrameHeader& header) {
  const auto kind = static_cast<Kind>(header.kind);
  if (kind != Kind::Done && kind != Kind::Failed) return false;
  return answers(header, Kind::Configure) || answers(header, Kind::Hold) ||
         answers(header, Kind::Identity);
}

}  // namespace

Core::Core(Hands& hands, carried::Sockets& sockets, uint8_t* memory, uint8_t* connections,
           uint64_t salt)
    : hands_(hands), streams_(carried::Side::Host, sockets) {
  streams_.open(connections);
  from_init_ = memory;
  from_server_ = from_init_ + kFromInitBytes;
  to_server_.open(from_server_ + kFromServerBytes, kToServerBytes);
  to_init_.open(from_server_ + kFromServerBytes + kToServerBytes, kToInitBytes);
  memcpy(token_.token, &salt, sizeof(salt));
}

// ------------------------------------------------------------------------------------ launcher

void Core::tell(ControlKind kind) {
  const wire::ControlHeader header{wire::kVersion, static_cast<uint32_t>(kind)};
  hands_.tell(&header, sizeof(header));
}

void Core::say(Kind kind) { (void)to_init_.frame(kind, 0, 0, 0); }

void Core::reset_init() {
  resumed_ = false;
  reset_waits_ = held_;
  if (held_) return;
  ++resets_;
  memcpy(token_.token + sizeof(uint64_t), &resets_, sizeof(resets_));
  (void)to_init_.send(Kind::Reset, 0, 0, token_);
}

// It was held when its memory was taken, so nothing is half said in either direction.
bool Core::carry() { return stands_ && state_ == State::Serving; }

void Core::let_go() {
  held_ = false;
  stands_ = false;
  if (reset_waits_) reset_init();
}

bool Core::control(Bytes message) {
  wire::Reader reader(message);
  wire::ControlHeader header{};
  if (!reader.take(header) || header.version != wire::kVersion) return false;
  const auto kind = static_cast<ControlKind>(header.kind);
  if (configured_ == (kind == ControlKind::Config)) return false;
  wire::ConfigView config;
  wire::IdentityView identity;
  uint8_t* at = nullptr;
  switch (kind) {
    case ControlKind::Config:
    case ControlKind::Rules:
      if (wire::parse_config(message, config) != wire::Check::Ok) return false;
      at = to_init_.frame(Kind::Configure, 0, 0, message.size);
      if (at == nullptr) return false;
      memcpy(at, message.data, message.size);
      if (kind == ControlKind::Config) {
        proxy_port_ = config.config.proxy_port;
        configured_ = true;
      }
      let_go();
      break;
    case ControlKind::Identity:
      if (!wire::parse_identity({reader.at(), reader.left()}, identity)) return false;
      at = to_init_.frame(Kind::Identity, 0, 0, reader.left());
      if (at == nullptr) return false;
      memcpy(at, reader.at(), reader.left());
      return true;
    case ControlKind::Hold:
      held_ = true;
      stands_ = false;
      say(Kind::Hold);
      return true;
    case ControlKind::Release:
      say(Kind::Release);
      let_go();
      break;
    case ControlKind::EndProcesses:
      say(Kind::EndProcesses);
      return true;
    case ControlKind::Shutdown:
      say(Kind::Shutdown);
      state_ = State::Over;
      return true;
    default:
      return false;
  }
  take_from_server();
  return true;
}

void Core::attach() {
  server_ = true;
  server_end_ = 0;
  server_waits_ = false;
  to_server_.clear();
  reset_init();
  take_from_init();  // what waited for room was the old server's
}

void Core::server_left() {
  if (!server_) return;
  forget_server();
  take_from_init();
}

// init hears of it at once: what it does for this server ends now.
void Core::forget_server() {
  server_ = false;
  server_end_ = 0;
  server_waits_ = false;
  to_server_.clear();
  reset_init();
}

// -------------------------------------------------------------------------------- server to init

Piece Core::server_space() { return {from_server_ + server_end_, kFromServerBytes - server_end_}; }

void Core::server_gave(size_t size) {
  server_end_ += size;
  take_from_server();
}

void Core::take_from_server() {
  size_t at = 0;
  server_waits_ = held_;
  while (server_ && !held_) {
    FrameHeader header{};
    const Scan scan = wire::scan_request({from_server_ + at, server_end_ - at}, header);
    if (scan == Scan::NeedMore) break;
    if (scan == Scan::Bad) {
      hands_.drop_server();
      forget_server();
      if (init_waits_) take_from_init();
      return;
    }
    const size_t size = sizeof(header) + header.size;
    server_waits_ = to_init_.room() < size + kControlRoom + kOwnRoom;
    if (server_waits_) break;
    (void)to_init_.pass({from_server_ + at, size});
    at += size;
  }
  if (at == 0) return;
  memmove(from_server_, from_server_ + at, server_end_ - at);
  server_end_ -= at;
}

void Core::init_took(size_t size) {
  to_init_.taken(size);
  if (server_waits_) take_from_server();
}

// -------------------------------------------------------------------------------- init to server

Piece Core::init_space() { return {from_init_ + init_end_, kFromInitBytes - init_end_}; }

void Core::init_gave(size_t size) {
  init_end_ += size;
  take_from_init();
}

void Core::server_took(size_t size) {
  to_server_.taken(size);
  if (init_waits_) take_from_init();
}

void Core::take_from_init() {
  size_t at = 0;
  init_waits_ = false;
  while (state_ == State::Serving || state_ == State::Over) {
    FrameHeader header{};
    const Scan scan = wire::scan_carried_reply({from_init_ + at, init_end_ - at}, header);
    if (scan == Scan::NeedMore) break;
    if (scan == Scan::Bad) {
      state_ = State::Broken;
      return;
    }
    const size_t size = sizeof(header) + header.size;
    const Pass pass = take_reply(header, {from_init_ + at, size});
    init_waits_ = pass == Pass::Wait;
    if (pass != Pass::Next) break;
    at += size;
  }
  if (at == 0) return;
  memmove(from_init_, from_init_ + at, init_end_ - at);
  init_end_ -= at;
}

Core::Pass Core::take_reply(const FrameHeader& header, Bytes frame) {
  const Bytes payload{frame.data + sizeof(header), header.size};
  switch (static_cast<Kind>(header.kind)) {
    case Kind::Resumed:
      if (server_ && memcmp(payload.data, token_.token, sizeof(token_.token)) == 0) resumed_ = true;
      return Pass::Next;
    case Kind::Dropped:
      // Of an older server, perhaps: only what stands behind the last Resumed is this one's.
      if (!resumed_) return Pass::Next;
      hands_.drop_server();
      forget_server();
      return Pass::Next;
    case Kind::Open:
    case Kind::Opened:
    case Kind::Bytes:
    case Kind::Window:
    case Kind::End:
    case Kind::Close:
    case Kind::Datagram:
      if (take_connection(header, payload)) return Pass::Next;
      state_ = State::Broken;
      return Pass::Stop;
    default:
      break;
  }
  if (is_own_answer(header)) return own_answer(header, payload) ? Pass::Next : Pass::Stop;
  if (!wire::is_reply(header)) {
    state_ = State::Broken;
    return Pass::Stop;
  }
  return resumed_ ? pass_reply(frame) : Pass::Next;
}

bool Core::take_connection(const FrameHeader& header, Bytes payload) {
  if (static_cast<Kind>(header.kind) != Kind::Datagram) return streams_.take(header, payload);
  wire::DatagramView view;
  if ((header.id & wire::kCarriedId) == 0 || !wire::parse_datagram(payload, view)) return false;
  hands_.ask(header.id, view.body.to, view.bytes);
  return true;
}

uint32_t Core::connect(Bytes message) {
  wire::Reader reader(message);
  wire::ControlConnect wanted{};
  if (!configured_ || !reader.take(wanted) || reader.left() != 0 || wanted.port == 0)
    return carried::Streams::kNone;
  wire::Endpoint to{};
  to.port = wanted.port;
  to.family = wanted.family;
  if (wanted.family == static_cast<uint16_t>(wire::Family::V4)) {
    to.address[0] = 127;
    to.address[3] = 1;
  } else if (wanted.family == static_cast<uint16_t>(wire::Family::V6)) {
    to.address[15] = 1;
  } else {
    return carried::Streams::kNone;
  }
  const uint32_t index = streams_.allot();
  if (index != carried::Streams::kNone) streams_.begin(index, to);
  return index;
}

void Core::answer(uint32_t id, const wire::Endpoint& from, Bytes answer) {
  const size_t size = sizeof(wire::DatagramBody) + answer.size;
  if (held_ || answer.size > wire::kDatagramMax || reserve(sizeof(FrameHeader) + size) == nullptr)
    return;
  uint8_t* at = to_init_.frame(Kind::Datagram, 0, id, size);
  const wire::DatagramBody body{from, 0};
  memcpy(at, &body, sizeof(body));
  memcpy(at + sizeof(body), answer.data, answer.size);
}

void Core::pump() {
  if (configured_ && !held_) streams_.pump(*this);
}

// Behind what the launcher may say at any time.
uint8_t* Core::reserve(size_t size) {
  if (to_init_.room() < size + kControlRoom + kOwnRoom) return nullptr;
  return to_init_.reserve(size);
}

void Core::commit(size_t size) { to_init_.commit(size); }

Core::Pass Core::pass_reply(Bytes frame) {
  return to_server_.pass(frame) ? Pass::Next : Pass::Wait;
}

// False when that was the end of it.
bool Core::own_answer(const FrameHeader& header, Bytes payload) {
  const bool done = static_cast<Kind>(header.kind) == Kind::Done;
  if (answers(header, Kind::Configure)) {
    if (done) return true;
    failed_to_begin(payload);
    return false;
  }
  if (answers(header, Kind::Hold)) {
    if (done && held_) {
      stands_ = true;
      tell(ControlKind::Held);
    }
    return true;
  }
  wire::DoneBody body{};
  (void)(done && wire::parse_exact(payload, body));
  const wire::ControlRenewed renewed{{wire::kVersion, static_cast<uint32_t>(ControlKind::Renewed)},
                                     static_cast<uint32_t>(body.bytes),
                                     0};
  hands_.tell(&renewed, sizeof(renewed));
  return true;
}

void Core::failed_to_begin(Bytes payload) {
  wire::FailedView view;
  if (!wire::parse_failed(payload, view)) {
    state_ = State::Broken;
    return;
  }
  const wire::ControlFailed message{{wire::kVersion, static_cast<uint32_t>(ControlKind::Failed)},
                                    view.body.sys_errno,
                                    view.body.step};
  hands_.tell(&message, sizeof(message));
  state_ = State::Failed;
}

}  // namespace caisson::carrier
