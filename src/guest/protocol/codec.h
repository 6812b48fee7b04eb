// guest/protocol/codec.h — reads and checks the words of protocol.h. Both sides use it, so each
// question about a length has one answer. Nothing here copies or allocates: a view points into the
// caller's bytes and lives as long as they do.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/protocol/protocol.h"

namespace caisson::wire {

struct Bytes {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

// Takes fixed structs and byte runs from the front of a buffer. Once something did not fit, nothing
// fits any more.
class Reader {
 public:
  explicit Reader(Bytes bytes) : at_(bytes.data), left_(bytes.size) {}

  template <class T>
  bool take(T& out) {
    if (left_ < sizeof(T)) return fail();
    __builtin_memcpy(&out, at_, sizeof(T));
    at_ += sizeof(T);
    left_ -= sizeof(T);
    return true;
  }

  bool take_bytes(size_t size, Bytes& out) {
    if (left_ < size) return fail();
    out = Bytes{at_, size};
    at_ += size;
    left_ -= size;
    return true;
  }

  // A u32 size and that many bytes.
  bool take_string(Bytes& out) {
    uint32_t size = 0;
    return take(size) && take_bytes(size, out);
  }

  [[nodiscard]] size_t left() const { return left_; }
  [[nodiscard]] const uint8_t* at() const { return at_; }

 private:
  bool fail() {
    left_ = 0;
    return false;
  }
  const uint8_t* at_;
  size_t left_;
};

// Whether the front of a buffer is a frame. Bad means that the peer does not speak this protocol.
enum class Scan { NeedMore, Frame, Bad };
[[nodiscard]] Scan scan_request(Bytes buffer, FrameHeader& header);  // host to init
[[nodiscard]] Scan scan_reply(Bytes buffer, FrameHeader& header);    // init to host

// The same on a carried stream, where the carrier has words of its own.
[[nodiscard]] Scan scan_carried_request(Bytes buffer, FrameHeader& header);
[[nodiscard]] Scan scan_carried_reply(Bytes buffer, FrameHeader& header);
// Whether a server may say it, through a carrier; or whether it is for a server.
[[nodiscard]] bool is_request(const FrameHeader& header);
[[nodiscard]] bool is_reply(const FrameHeader& header);

enum class Check {
  Ok,
  Malformed,  // EINVAL, Step::Request
  TooMuch,    // E2BIG, Step::Limit
};

struct StartView {
  StartBody body;
  Bytes cwd;
  Bytes argv;    // body.argc sized strings, each checked: Reader::take_string walks them without
                 // failing
  Bytes env;     // body.envc
  Bytes groups;  // body.group_count × u32
};
[[nodiscard]] Check parse_start(Bytes payload, StartView& out);

struct OpView {
  OpBody body;
  Bytes path;
  Bytes path2;
};
[[nodiscard]] Check parse_op(Bytes payload, OpView& out);
// Whether the host sends Data and Eof for it.
[[nodiscard]] bool takes_input(OpKind op);

struct ConfigView {
  ControlKind kind{};  // Config or Rules
  InitConfig config;
  Bytes filter;  // config.filter_count × 8
  Bytes rules;   // config.rule_count × (LandlockRule, path), each checked
  Bytes ports;   // config.port_count × u16
};
// `message` begins with its ControlHeader.
[[nodiscard]] Check parse_config(Bytes message, ConfigView& out);

// One frame's fixed body with nothing behind it.
template <class T>
[[nodiscard]] bool parse_exact(Bytes payload, T& out) {
  Reader reader(payload);
  return reader.take(out) && reader.left() == 0;
}

struct IdentityView {
  IdentityBody body;
  Bytes hostname;
};
[[nodiscard]] bool parse_identity(Bytes payload, IdentityView& out);

// Of the right family, and the unused bytes zero.
[[nodiscard]] bool is_endpoint(const Endpoint& endpoint);

struct DatagramView {
  DatagramBody body;
  Bytes bytes;
};
[[nodiscard]] bool parse_datagram(Bytes payload, DatagramView& out);

struct EntryView {
  EntryBody body;
  Bytes name;
  Bytes target;
};
[[nodiscard]] bool parse_entry(Bytes payload, EntryView& out);

struct EventView {
  EventBody body;
  Bytes name;
};
[[nodiscard]] bool parse_event(Bytes payload, EventView& out);

struct MatchView {
  MatchBody body;
  Bytes name;
  Bytes text;
};
[[nodiscard]] bool parse_match(Bytes payload, MatchView& out);

struct FailedView {
  FailedBody body;
  Bytes text;
};
[[nodiscard]] bool parse_failed(Bytes payload, FailedView& out);

struct ListEntryView {
  ListEntryBody body;
  Bytes name;
};
[[nodiscard]] bool parse_list_entry(Bytes payload, ListEntryView& out);

[[nodiscard]] const char* step_name(Step step);

}  // namespace caisson::wire
