// guest/init/connection.h — the stream to whoever drives the sandbox, and its two bounded buffers.
//
// A request is taken only while kReplyRoom is free in the outgoing buffer, so an answer always
// fits. Everything else that init sends (Data, Exited, Eof) is made from state when there is room;
// a peer that does not read stops it all without init holding more than these buffers.
//
// Carried, the stream is there for life, and a peer comes and goes on it: drop() says Dropped and
// takes nothing more of this peer, resume() begins with the next. What is half written is never
// forgotten then, because the carrier on the other side is still the same.
//
// At most one descriptor waits here, and only for the request that it came with: it is that
// request's when both ended in the same place. One that came with anything else is closed.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/init/poller.h"
#include "guest/protocol/codec.h"

namespace caisson::init {

class Connection {
 public:
  static constexpr size_t kInBytes = wire::kPayloadMax + 64UL * 1024;
  // A request that brings a descriptor is shorter than this. With so much room it is read in one
  // piece; with less there is a whole request to be served first.
  static constexpr size_t kReadRoom = 16UL * 1024;
  static constexpr size_t kOutBytes = 512UL * 1024;
  static constexpr size_t kFrameBytesMax = 128UL * 1024;  // of one frame that init sends
  static constexpr size_t kReplyRoom = 160UL * 1024;      // a full List: kProcessesMax entries
  static constexpr size_t kNameMax = 256;                 // of argv[0] in a ListEntry

  explicit Connection(Poller& poller) : poller_(poller) {}

  bool open_buffers();
  void attach(
      int fd,
      const uint8_t nonce[wire::kNonceBytes]);  // drops the old peer, says Hello to the new one
  void drop();
  [[nodiscard]] bool up() const { return carried() ? peer_ : fd_ >= 0; }

  // A stream for life, on a descriptor for each direction; nobody is there before resume(). At the
  // end of a Port's bytes nobody is there either, and somebody may come.
  enum class Life : uint8_t { Stream, Port };
  void carry(int input, int output, Life life);
  void resume(const wire::ResetBody& token, const uint8_t nonce[wire::kNonceBytes]);
  [[nodiscard]] bool carried() const { return output_ >= 0; }
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  [[nodiscard]] bool overflowed() const { return overflowed_; }
  [[nodiscard]] bool flushed() const { return out_begin_ == out_end_; }
  // When to look without being told; 0: never.
  [[nodiscard]] uint64_t next_look() const { return look_at_us_; }
  void forget_events();  // and ask for them anew: the descriptors lead elsewhere now
  // Until there is something to read, or to write: before there is an epoll set to ask.
  void wait() const;

  enum class Read { Some, Nothing, Closed };
  Read receive();
  // The next whole request, valid until the next call. Bad means drop.
  wire::Scan next(wire::FrameHeader& header, wire::Bytes& payload);
  // The descriptor of the request that next() gave, or -1. Closed by the next next() otherwise.
  int take_descriptor();

  [[nodiscard]] size_t room() const { return kOutBytes - (out_end_ - out_begin_); }
  // Asks for room before making a frame; a no is remembered.
  bool has_room(size_t size) {
    if (room() >= size) return true;
    starved_ = true;
    return false;
  }
  // After flush(): whether something waited for room that is there now, and no event would say so.
  bool must_turn() {
    const bool turn = starved_ && out_begin_ == out_end_;
    starved_ = false;
    return turn;
  }
  // Room for a payload of `size` bytes; the caller fills it. Callers keep within room(); if one
  // does not, the frame goes nowhere and the next flush() gives the peer up, since it would miss
  // something.
  uint8_t* frame(wire::Kind kind, uint16_t stream, uint32_t id, size_t size);
  // The same for a frame whose size is known only when it is there: at most `size` bytes, then
  // commit() or nothing.
  uint8_t* reserve(size_t size);
  void commit(size_t size) { out_end_ += size; }

  template <class Body>
  void send(wire::Kind kind, uint16_t stream, uint32_t id, const Body& body) {
    __builtin_memcpy(frame(kind, stream, id, sizeof(body)), &body, sizeof(body));
  }
  void done(wire::Kind request, uint32_t id, wire::DoneBody body = {});
  void failed(wire::Kind request, uint32_t id, int sys_errno, wire::Step step,
              const char* text = "");

  bool flush();  // false when the peer is gone

 private:
  void hello(const uint8_t nonce[wire::kNonceBytes]);
  bool descriptor_waits();
  Read read_carried();
  bool flush_carried();
  void watch(int fd, uint32_t events, bool& watched, bool wanted);

  Poller& poller_;
  int fd_ = -1;
  int output_ = -1;  // carried; else fd_ is for both
  Life life_ = Life::Stream;
  bool peer_ = false;
  bool owes_dropped_ = false;
  bool absent_ = false;  // a Port at whose other end nobody is
  bool reads_ = false;   // in the epoll set
  bool writes_ = false;
  uint64_t look_at_us_ = 0;
  bool overflowed_ = false;
  bool starved_ = false;
  uint32_t watched_ = 0;  // epoll events asked for
  uint8_t* in_ = nullptr;
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  int passed_ = -1;       // came with the last bytes
  size_t passed_at_ = 0;  // where these end in in_
  int current_ = -1;      // came with the request that is being handled
  uint8_t* out_ = nullptr;
  size_t out_begin_ = 0;
  size_t out_end_ = 0;
};

}  // namespace caisson::init
