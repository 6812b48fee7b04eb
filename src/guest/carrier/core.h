// guest/carrier/core.h — what the carrier does with bytes and messages, without a system call: a
// state machine that tests and fuzzers drive as main.cc does.
//
//   server ── frames ──▶ from_server_ ──▶ to_init_ ──▶ init
//   server ◀── to_server_ ◀────────────── from_init_ ◀── init
//
// Only whole frames pass, so a server may be cut off at any byte: init's stream never is. A frame
// of a server is taken once there is room for it behind what the launcher may say at any time.
// Bytes of init are hostile: what is no frame, or no frame of init's, ends the sandbox.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/carried/queue.h"
#include "guest/carried/streams.h"
#include "guest/protocol/codec.h"

namespace caisson::carrier {

// What the core asks of the world.
class Hands {
 public:
  // A message to the launcher.
  virtual void tell(const void* message, size_t size) = 0;
  // The server's stream is closed.
  virtual void drop_server() = 0;
  // A tenant's question to the resolver, or none: its answer has the same id.
  virtual void ask(uint32_t id, const wire::Endpoint& to, wire::Bytes question) = 0;

 protected:
  ~Hands() = default;
};

struct Piece {  // where bytes go that are read
  uint8_t* data;
  size_t size;
};

class Core final : private carried::Outlet {
 public:
  static constexpr size_t kFrameMax = sizeof(wire::FrameHeader) + wire::kPayloadMax;
  static constexpr size_t kFromInitBytes = 256UL * 1024;
  static constexpr size_t kFromServerBytes = kFrameMax + 64UL * 1024;
  static constexpr size_t kToServerBytes = 512UL * 1024;
  static constexpr size_t kToInitBytes = 1024UL * 1024;
  // Kept free in what goes to init: one message of the launcher, and words of our own.
  static constexpr size_t kControlRoom = sizeof(wire::FrameHeader) + wire::kControlMax;
  static constexpr size_t kOwnRoom = 4UL * 1024;
  static constexpr size_t kMemoryBytes =
      kFromInitBytes + kFromServerBytes + kToServerBytes + kToInitBytes;

  // `memory` is kMemoryBytes, `connections` what they need. `salt` makes our tokens differ from
  // those of another life of init.
  Core(Hands& hands, carried::Sockets& sockets, uint8_t* memory, uint8_t* connections,
       uint64_t salt);

  enum class State : uint8_t {
    Serving,
    Over,    // the launcher wants init to end: its stream may end now
    Broken,  // init does not speak the protocol
    Failed,  // init could not begin; the launcher knows
  };
  [[nodiscard]] State state() const { return state_; }

  // A message of the launcher; false: it is none, or comes at the wrong time. What carries a
  // descriptor comes by attach().
  [[nodiscard]] bool wants_control() const { return to_init_.room() >= kControlRoom + kOwnRoom; }
  bool control(wire::Bytes message);
  // A message Carry: init goes on at the end of another stream. False: it has not said Held.
  bool carry();
  // init does nothing, and has said so: its stream may end now, because it may go on elsewhere.
  [[nodiscard]] bool stands() const { return stands_; }
  // There is a new server.
  void attach();
  void server_left();
  // A message Connect: which slot its socket has from now on, or kNone.
  uint32_t connect(wire::Bytes message);
  // The resolver's answer; dropped where there is no room, as datagrams are.
  void answer(uint32_t id, const wire::Endpoint& from, wire::Bytes answer);
  [[nodiscard]] bool waits() const { return streams_.waits() && !held_; }
  [[nodiscard]] carried::Streams& streams() { return streams_; }
  // Says for connections what is owed, while there is room.
  void pump();
  // Where the proxy is found beside its own port; 0: nowhere else.
  [[nodiscard]] uint16_t proxy_port() const { return proxy_port_; }

  [[nodiscard]] Piece init_space();
  void init_gave(size_t size);
  [[nodiscard]] Piece server_space();
  void server_gave(size_t size);
  [[nodiscard]] wire::Bytes for_init() const { return to_init_.pending(); }
  void init_took(size_t size);
  [[nodiscard]] wire::Bytes for_server() const { return to_server_.pending(); }
  void server_took(size_t size);

  // Whether bytes that are read now would have a place.
  [[nodiscard]] bool wants_init() const { return init_end_ < kFromInitBytes && !init_waits_; }
  [[nodiscard]] bool wants_server() const { return server_ && !server_waits_; }

 private:
  enum class Pass : uint8_t { Next, Wait, Stop };

  void forget_server();
  void take_from_init();
  void take_from_server();
  Pass take_reply(const wire::FrameHeader& header, wire::Bytes frame);
  Pass pass_reply(wire::Bytes frame);
  bool take_connection(const wire::FrameHeader& header, wire::Bytes payload);
  uint8_t* reserve(size_t size) override;
  void commit(size_t size) override;
  bool own_answer(const wire::FrameHeader& header, wire::Bytes payload);
  void failed_to_begin(wire::Bytes payload);
  void say(wire::Kind kind);
  void reset_init();
  void let_go();
  void tell(wire::ControlKind kind);

  Hands& hands_;
  carried::Streams streams_;
  State state_ = State::Serving;
  bool configured_ = false;
  uint16_t proxy_port_ = 0;
  bool server_ = false;        // somebody is there
  bool resumed_ = false;       // and what init says is for him
  bool held_ = false;          // init does nothing: neither do we
  bool stands_ = false;        // and it has said so
  bool reset_waits_ = false;   // who is held takes no word of a server
  bool init_waits_ = false;    // a frame for the server has no room
  bool server_waits_ = false;  // a frame for init has none
  wire::ResetBody token_{};
  uint64_t resets_ = 0;
  carried::FrameQueue to_init_;
  carried::FrameQueue to_server_;
  uint8_t* from_init_;
  size_t init_end_ = 0;
  uint8_t* from_server_;
  size_t server_end_ = 0;
};

}  // namespace caisson::carrier
