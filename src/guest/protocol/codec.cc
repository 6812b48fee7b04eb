#include "guest/protocol/codec.h"

#include <string.h>

namespace caisson::wire {
namespace {

constexpr uint32_t kStartFlagsAll = kStartPty | kStartStdin | kStartMergeError | kStartKillTree |
                                    kStartAutoForget | kStartAttach | kStartQuiet | kStartSole |
                                    kStartHold;
constexpr uint32_t kOpFlagsAll = kOpParents | kOpRecursive | kOpReplace | kOpNoFollow |
                                 kOpExclusive | kOpSocket | kOpTell | kOpOpenUp | kOpNoLinks |
                                 kOpAppend;
constexpr uint32_t kConfigFlagsAll = kConfigLandlock | kConfigScopeSockets | kConfigGroups |
                                     kConfigOom | kConfigSingleId | kConfigRaiseOomScore |
                                     kConfigBase | kConfigRootCapabilities | kConfigCarryNetwork;
constexpr uint32_t kPingMax = 64;
constexpr uint32_t kNoId = 0xffffffffU;  // (uid_t)-1 means "leave as it is" to the kernel
constexpr uint32_t kFilterMax = 4096;    // BPF_MAXINSNS
constexpr uint32_t kRulesMax = 1024;
constexpr uint32_t kFilterEntryBytes = 8;

bool has_nul(Bytes bytes) {
  return bytes.size != 0 && memchr(bytes.data, 0, bytes.size) != nullptr;
}

bool absolute_path(Bytes path) {
  return path.size >= 1 && path.size <= kPathMax && path.data[0] == '/' && !has_nul(path);
}

// Some flags mean something to one kind of operation only.
bool flags_fit(OpKind op, uint32_t flags) {
  if ((flags & kOpSocket) != 0 && op != OpKind::Write) return false;
  if ((flags & kOpTell) != 0 && op != OpKind::TarIn) return false;
  if ((flags & kOpNoLinks) != 0 && op != OpKind::Read && op != OpKind::Write) return false;
  if ((flags & kOpAppend) != 0 && (op != OpKind::Write || (flags & kOpExclusive) != 0))
    return false;
  const bool opens = op == OpKind::TarIn || op == OpKind::List || op == OpKind::Pack;
  return (flags & kOpOpenUp) == 0 || opens;
}

struct SizeRange {
  uint32_t least;
  uint32_t most;
};
constexpr SizeRange kUnknown{1, 0};
constexpr SizeRange exactly(size_t size) {
  return {static_cast<uint32_t>(size), static_cast<uint32_t>(size)};
}
constexpr SizeRange at_least(size_t size) { return {static_cast<uint32_t>(size), kPayloadMax}; }

SizeRange request_size(Kind kind) {
  switch (kind) {
    case Kind::Data:
      return at_least(0);
    case Kind::Credit:
      return exactly(sizeof(CreditBody));
    case Kind::Start:
      return at_least(sizeof(StartBody));
    case Kind::Signal:
      return exactly(sizeof(SignalBody));
    case Kind::Resize:
      return exactly(sizeof(ResizeBody));
    case Kind::Attach:
      return exactly(sizeof(AttachBody));
    case Kind::Op:
      return at_least(sizeof(OpBody));
    case Kind::Ping:
      return {0, kPingMax};
    case Kind::Commit:
      return exactly(sizeof(CommitBody));
    case Kind::Eof:
    case Kind::Detach:
    case Kind::Forget:
    case Kind::List:
    case Kind::Cancel:
    case Kind::Shutdown:
      return exactly(0);
    default:
      return kUnknown;
  }
}

SizeRange reply_size(Kind kind) {
  switch (kind) {
    case Kind::Data:
      return {sizeof(DataHeader), sizeof(DataHeader) + kDataMax};
    case Kind::Eof:
      return exactly(0);
    case Kind::Credit:
      return exactly(sizeof(CreditBody));
    case Kind::Hello:
      return exactly(sizeof(HelloBody));
    case Kind::Started:
      return exactly(sizeof(StartedBody));
    case Kind::Exited:
      return exactly(sizeof(ExitedBody));
    case Kind::Done:
      return exactly(sizeof(DoneBody));
    case Kind::Failed:
      return {sizeof(FailedBody), sizeof(FailedBody) + kFailureTextMax};
    case Kind::ListEntry:
      return {sizeof(ListEntryBody), sizeof(ListEntryBody) + kPathMax};
    case Kind::Entry:
      return {sizeof(EntryBody), sizeof(EntryBody) + size_t{2} * kPathMax};
    case Kind::Event:
      return {sizeof(EventBody), sizeof(EventBody) + kPathMax};
    case Kind::Match:
      return {sizeof(MatchBody), sizeof(MatchBody) + kPathMax + kMatchTextMax};
    case Kind::Pong:
      return {0, kPingMax};
    default:
      return kUnknown;
  }
}

// What travels on a carried stream alone, in both directions.
SizeRange connection_size(Kind kind) {
  switch (kind) {
    case Kind::Open:
      return exactly(sizeof(OpenBody));
    case Kind::Opened:
    case Kind::Window:
      return exactly(sizeof(CreditBody));
    case Kind::Bytes:
      return {1, kDataMax};
    case Kind::End:
      return exactly(0);
    case Kind::Close:
      return exactly(sizeof(CloseBody));
    case Kind::Datagram:
      return {sizeof(DatagramBody), sizeof(DatagramBody) + kDatagramMax};
    default:
      return kUnknown;
  }
}

SizeRange carried_request_size(Kind kind) {
  switch (kind) {
    case Kind::Reset:
      return exactly(sizeof(ResetBody));
    case Kind::Configure:
      return {sizeof(ControlHeader) + sizeof(InitConfig), kControlMax};
    case Kind::Identity:
      return {sizeof(IdentityBody), sizeof(IdentityBody) + kHostnameMax};
    case Kind::Hold:
    case Kind::Release:
    case Kind::EndProcesses:
      return exactly(0);
    default:
      return connection_size(kind);
  }
}

SizeRange carried_reply_size(Kind kind) {
  switch (kind) {
    case Kind::Resumed:
      return exactly(sizeof(ResetBody));
    case Kind::Dropped:
      return exactly(0);
    default:
      return connection_size(kind);
  }
}

bool known(SizeRange range) { return range.least <= range.most; }

SizeRange any_request_size(Kind kind) {
  const SizeRange own = carried_request_size(kind);
  return known(own) ? own : request_size(kind);
}

SizeRange any_reply_size(Kind kind) {
  const SizeRange own = carried_reply_size(kind);
  return known(own) ? own : reply_size(kind);
}

Scan scan(Bytes buffer, FrameHeader& header, SizeRange (*allowed)(Kind)) {
  Reader reader(buffer);
  if (!reader.take(header)) return Scan::NeedMore;
  const SizeRange range = allowed(static_cast<Kind>(header.kind));
  if (header.size < range.least || header.size > range.most) return Scan::Bad;
  return reader.left() < header.size ? Scan::NeedMore : Scan::Frame;
}

// Walks `count` sized strings and gives back the bytes they cover.
template <class Accept>
bool take_strings(Reader& reader, uint32_t count, Bytes& covered, Accept accept) {
  const uint8_t* begin = reader.at();
  for (uint32_t i = 0; i < count; ++i) {
    Bytes text;
    if (!reader.take_string(text) || has_nul(text) || !accept(text)) return false;
  }
  covered = Bytes{begin, static_cast<size_t>(reader.at() - begin)};
  return true;
}

bool is_assignment(Bytes text) {
  const void* equals = text.size != 0 ? memchr(text.data, '=', text.size) : nullptr;
  return equals != nullptr && equals != text.data;
}

}  // namespace

Scan scan_request(Bytes buffer, FrameHeader& header) { return scan(buffer, header, request_size); }
Scan scan_reply(Bytes buffer, FrameHeader& header) { return scan(buffer, header, reply_size); }

Scan scan_carried_request(Bytes buffer, FrameHeader& header) {
  return scan(buffer, header, any_request_size);
}
Scan scan_carried_reply(Bytes buffer, FrameHeader& header) {
  return scan(buffer, header, any_reply_size);
}
bool is_request(const FrameHeader& header) {
  return known(request_size(static_cast<Kind>(header.kind)));
}
bool is_reply(const FrameHeader& header) {
  return known(reply_size(static_cast<Kind>(header.kind)));
}

Check parse_start(Bytes payload, StartView& out) {
  Reader reader(payload);
  if (!reader.take(out.body)) return Check::Malformed;
  const StartBody& body = out.body;
  if ((body.flags & ~kStartFlagsAll) != 0 || body.reserved != 0) return Check::Malformed;
  if ((body.flags & kStartHold) != 0 && (body.flags & (kStartKillTree | kStartPty)) != 0)
    return Check::Malformed;
  if (body.mode > static_cast<uint32_t>(Mode::Collect)) return Check::Malformed;
  if (body.uid == kNoId || body.gid == kNoId || body.argc == 0) return Check::Malformed;
  if (body.argc > kArgsMax || body.envc > kArgsMax || body.group_count > kGroupsMax)
    return Check::TooMuch;
  if (body.cwd_size > kPathMax) return Check::TooMuch;
  if (!reader.take_bytes(body.cwd_size, out.cwd) || !absolute_path(out.cwd))
    return Check::Malformed;
  if (!take_strings(reader, body.argc, out.argv, [](Bytes) { return true; }))
    return Check::Malformed;
  if (!take_strings(reader, body.envc, out.env, is_assignment)) return Check::Malformed;
  if (!reader.take_bytes(body.group_count * sizeof(uint32_t), out.groups)) return Check::Malformed;
  return reader.left() == 0 ? Check::Ok : Check::Malformed;
}

bool takes_input(OpKind op) {
  return op == OpKind::Write || op == OpKind::TarIn || op == OpKind::Pack || op == OpKind::Find ||
         op == OpKind::Grep;
}

Check parse_op(Bytes payload, OpView& out) {
  Reader reader(payload);
  if (!reader.take(out.body)) return Check::Malformed;
  const OpBody& body = out.body;
  if (body.op < static_cast<uint32_t>(OpKind::Stat) ||
      body.op > static_cast<uint32_t>(OpKind::Ports)) {
    return Check::Malformed;
  }
  if ((body.flags & ~kOpFlagsAll) != 0 || body.uid == kNoId || body.gid == kNoId)
    return Check::Malformed;
  if ((body.mode & ~07777U) != 0) return Check::Malformed;
  if (!flags_fit(static_cast<OpKind>(body.op), body.flags)) return Check::Malformed;
  if (body.path_size > kPathMax || body.path2_size > kPathMax) return Check::TooMuch;
  if (!reader.take_bytes(body.path_size, out.path) || !absolute_path(out.path))
    return Check::Malformed;
  if (!reader.take_bytes(body.path2_size, out.path2)) return Check::Malformed;
  const bool wants_second = body.op == static_cast<uint32_t>(OpKind::Move);
  if (wants_second ? !absolute_path(out.path2) : body.path2_size != 0) return Check::Malformed;
  return reader.left() == 0 ? Check::Ok : Check::Malformed;
}

Check parse_config(Bytes message, ConfigView& out) {
  Reader reader(message);
  ControlHeader header{};
  if (!reader.take(header) || header.version != kVersion) return Check::Malformed;
  if (header.kind != static_cast<uint32_t>(ControlKind::Config) &&
      header.kind != static_cast<uint32_t>(ControlKind::Rules))
    return Check::Malformed;
  out.kind = static_cast<ControlKind>(header.kind);
  if (!reader.take(out.config) || (out.config.flags & ~kConfigFlagsAll) != 0)
    return Check::Malformed;
  if (out.config.reserved != 0) return Check::Malformed;
  if (out.config.filter_count > kFilterMax || out.config.rule_count > kRulesMax ||
      out.config.port_count > kCarriedPortsMax)
    return Check::TooMuch;
  if (!reader.take_bytes(size_t{out.config.filter_count} * kFilterEntryBytes, out.filter))
    return Check::Malformed;
  const uint8_t* begin = reader.at();
  for (uint32_t i = 0; i < out.config.rule_count; ++i) {
    LandlockRule rule{};
    Bytes path;
    if (!reader.take(rule) || !reader.take_bytes(rule.path_size, path)) return Check::Malformed;
    if (!absolute_path(path)) return Check::Malformed;
    if (rule.access < static_cast<uint32_t>(Access::Read)) return Check::Malformed;
    if (rule.access > static_cast<uint32_t>(Access::Device)) return Check::Malformed;
  }
  out.rules = Bytes{begin, static_cast<size_t>(reader.at() - begin)};
  if (!reader.take_bytes(out.config.port_count * sizeof(uint16_t), out.ports))
    return Check::Malformed;
  return reader.left() == 0 ? Check::Ok : Check::Malformed;
}

bool parse_identity(Bytes payload, IdentityView& out) {
  Reader reader(payload);
  if (!reader.take(out.body) || out.body.reserved != 0 || out.body.hostname_size > kHostnameMax)
    return false;
  return reader.take_bytes(out.body.hostname_size, out.hostname) && reader.left() == 0 &&
         !has_nul(out.hostname);
}

bool is_endpoint(const Endpoint& endpoint) {
  if (endpoint.family == static_cast<uint16_t>(Family::V6)) return true;
  if (endpoint.family != static_cast<uint16_t>(Family::V4)) return false;
  for (size_t i = 4; i < sizeof(endpoint.address); ++i) {
    if (endpoint.address[i] != 0) return false;
  }
  return true;
}

bool parse_datagram(Bytes payload, DatagramView& out) {
  Reader reader(payload);
  if (!reader.take(out.body) || out.body.reserved != 0 || !is_endpoint(out.body.to)) return false;
  return reader.take_bytes(reader.left(), out.bytes);
}

bool parse_entry(Bytes payload, EntryView& out) {
  Reader reader(payload);
  if (!reader.take(out.body) || out.body.name_size > kPathMax || out.body.target_size > kPathMax)
    return false;
  if (out.body.type < static_cast<uint32_t>(EntryType::File)) return false;
  if (out.body.type > static_cast<uint32_t>(EntryType::Other)) return false;
  if (!reader.take_bytes(out.body.name_size, out.name)) return false;
  return reader.take_bytes(out.body.target_size, out.target) && reader.left() == 0 &&
         !has_nul(out.name) && !has_nul(out.target);
}

bool parse_event(Bytes payload, EventView& out) {
  Reader reader(payload);
  return reader.take(out.body) && reader.take_bytes(out.body.name_size, out.name) &&
         reader.left() == 0 && !has_nul(out.name);
}

bool parse_match(Bytes payload, MatchView& out) {
  Reader reader(payload);
  if (!reader.take(out.body) || out.body.name_size > kPathMax) return false;
  if (out.body.text_size > kMatchTextMax || out.body.line == 0) return false;
  return reader.take_bytes(out.body.name_size, out.name) &&
         reader.take_bytes(out.body.text_size, out.text) && reader.left() == 0 &&
         !has_nul(out.name) && !has_nul(out.text);
}

bool parse_failed(Bytes payload, FailedView& out) {
  Reader reader(payload);
  return reader.take(out.body) && reader.take_bytes(out.body.text_size, out.text) &&
         reader.left() == 0;
}

bool parse_list_entry(Bytes payload, ListEntryView& out) {
  Reader reader(payload);
  return reader.take(out.body) && reader.take_bytes(out.body.name_size, out.name) &&
         reader.left() == 0;
}

const char* step_name(Step step) {
  switch (step) {
    case Step::None:
      return "no step";
    case Step::Request:
      return "request";
    case Step::Limit:
      return "limit";
    case Step::Pipe:
      return "pipe";
    case Step::Group:
      return "process group";
    case Step::Fork:
      return "fork";
    case Step::Session:
      return "session";
    case Step::Stdio:
      return "standard streams";
    case Step::Rlimit:
      return "resource limits";
    case Step::Ids:
      return "user and group";
    case Step::Cwd:
      return "working directory";
    case Step::Landlock:
      return "Landlock";
    case Step::Seccomp:
      return "seccomp";
    case Step::Exec:
      return "exec";
    case Step::Resolve:
      return "path";
    case Step::Io:
      return "input or output";
    case Step::Archive:
      return "archive";
    case Step::Pattern:
      return "pattern";
    case Step::Network:
      return "network";
  }
  return "unknown step";
}

}  // namespace caisson::wire
