// guest/carried/streams.h — the table of carried connections, which is the same at both ends: what
// a socket here gives becomes frames, and what frames bring goes to the socket. Pure: sockets are
// somebody else's (Sockets), frames go where there is room for them (Outlet), so a fuzzer can be
// both.
//
// Nothing is ever queued because a frame has come: what is owed follows from a connection's state
// and is said by pump() while there is room. So the one who reads frames need never wait for the
// one who writes them, and two ends cannot block each other.
//
// An id names its slot, and whose it is: those below kCarriedMax are opened by the guest, the
// others by the host. Close is the last word of each side, said once; a slot is free when both have
// said it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/protocol/codec.h"

namespace caisson::carried {

constexpr uint32_t kSlots = wire::kCarriedMax + wire::kCarriedHostMax;

class Sockets {
 public:
  // The other side wants slot `index` to lead to `to`: 0 when it does, -EINPROGRESS when dialled()
  // will say, or why not.
  virtual long dial(uint32_t index, const wire::Endpoint& to) = 0;
  // As read(2) and write(2) without waiting; -errno.
  virtual long read(uint32_t index, uint8_t* to, size_t size) = 0;
  virtual long write(uint32_t index, const uint8_t* from, size_t size) = 0;
  virtual void end(uint32_t index) = 0;  // no more bytes follow
  virtual void watch(uint32_t index, bool reads, bool writes) = 0;
  virtual void close(uint32_t index, bool reset) = 0;
  // Nothing is in this memory any more: its pages may go.
  virtual void emptied(uint8_t* memory, size_t size) = 0;

 protected:
  ~Sockets() = default;
};

class Outlet {
 public:
  // Room for one frame of at most `size` bytes, payload and header, or null. commit() or nothing.
  virtual uint8_t* reserve(size_t size) = 0;
  virtual void commit(size_t size) = 0;

 protected:
  ~Outlet() = default;
};

enum class Side : uint8_t { Guest, Host };

class Streams {
 public:
  // Bytes on their way to sockets: pages that were never used cost nothing.
  static constexpr size_t kMemoryBytes = size_t{kSlots} * wire::kCarriedWindow;

  Streams(Side side, Sockets& sockets) : side_(side), sockets_(sockets) {}
  void open(uint8_t* memory) { memory_ = memory; }

  // A free slot of this side's own for a connection that has come, or kNone.
  static constexpr uint32_t kNone = ~0U;
  [[nodiscard]] uint32_t allot() const;
  // It has its socket and wants to go there.
  void begin(uint32_t index, const wire::Endpoint& to);

  // What sockets have to say.
  void readable(uint32_t index);
  void writable(uint32_t index);
  void dialled(uint32_t index, int sys_errno);

  // A frame of the other side. False: it breaks the rules.
  bool take(const wire::FrameHeader& header, wire::Bytes payload);
  // Says what is owed while there is room.
  void pump(Outlet& outlet);
  // Whether pump() had more to say than there was room.
  [[nodiscard]] bool waits() const { return waits_; }
  // The other end is another one: no connection is any more.
  void forget();
  [[nodiscard]] uint32_t count() const { return count_; }
  [[nodiscard]] bool dialing(uint32_t index) const {
    return streams_[index].state == State::Dialing;
  }

 private:
  enum class State : uint8_t {
    Free,
    Begun,    // has its socket; Open is owed
    Asked,    // Opened is awaited
    Dialing,  // the other side's Open came; its socket is on the way
    Stands,   // Opened is said, or heard
  };
  struct Stream {
    State state = State::Free;
    bool socket = false;
    bool reads = false;  // watched for
    bool writes = false;
    bool may_read = false;  // the socket has bytes, as far as we know
    bool owes_opened = false;
    bool source_ended = false;  // the socket's bytes have
    bool end_sent = false;
    bool end_heard = false;  // no more bytes come for the socket
    bool end_passed = false;
    bool owes_close = false;
    bool close_sent = false;
    bool close_heard = false;
    bool holds = false;  // its memory was written to
    int sys_errno = 0;
    uint32_t credit = 0;    // bytes that we may send
    uint32_t window = 0;    // bytes that may still come
    uint32_t consumed = 0;  // to be given back
    uint32_t begin = 0;     // of what waits for the socket
    uint32_t size = 0;
    wire::Endpoint to{};
  };

  [[nodiscard]] uint32_t id_of(uint32_t index) const;
  [[nodiscard]] uint32_t index_of(uint32_t id) const;
  [[nodiscard]] bool is_ours(uint32_t index) const;
  uint8_t* held(uint32_t index) { return memory_ + size_t{index} * wire::kCarriedWindow; }
  bool take_open(uint32_t index, wire::Bytes payload);
  bool take_bytes(uint32_t index, wire::Bytes payload);
  bool take_known(wire::Kind kind, uint32_t index, wire::Bytes payload);
  void keep(uint32_t index, wire::Bytes bytes);
  void push(uint32_t index);
  void fail(uint32_t index, int sys_errno);
  void drop_socket(uint32_t index, bool reset);
  void watch(uint32_t index);
  void settle(uint32_t index);
  bool pump_one(uint32_t index, Outlet& outlet);
  bool pump_bytes(uint32_t index, Outlet& outlet);
  bool send(Outlet& outlet, wire::Kind kind, uint32_t index, const void* body, size_t size);

  Side side_;
  Sockets& sockets_;
  uint8_t* memory_ = nullptr;
  Stream streams_[kSlots];
  uint32_t used_ = 0;  // slots beyond were never used
  uint32_t next_ = 0;  // whose turn it is
  uint32_t count_ = 0;
  bool waits_ = false;
};

}  // namespace caisson::carried
