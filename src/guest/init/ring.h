// guest/init/ring.h — what a tenant printed, bounded. Offsets count from the first byte it ever
// wrote.
//
//   Stream    the newest `capacity` bytes; position = offset % capacity.
//   Collect   the first half of the capacity, then the newest bytes in the second half; the middle
//   is lost.
//
// The mapping is made at the first byte: most commands print nothing to one of their streams.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/protocol/protocol.h"

namespace caisson::init {

struct Span {
  uint8_t* data = nullptr;
  size_t size = 0;
};

class Ring {
 public:
  void open(wire::Mode mode, uint32_t capacity);
  void close();  // gives the memory back; offsets stay readable

  // Where the next bytes go: up to two pieces. Bytes from `protect` on are not overwritten (end()
  // protects nothing). Gives 0 when there is no room, or no memory for the first mapping.
  int writable(uint64_t protect, Span spans[2]);
  void wrote(size_t bytes);

  // The bytes at `offset`, or at the next offset that is still held, in one piece. Size 0 at the
  // end.
  [[nodiscard]] Span readable(uint64_t& offset) const;
  void consumed(uint64_t up_to);  // somebody has these: dropping them is no loss

  [[nodiscard]] bool mapped() const { return base_ != nullptr; }
  [[nodiscard]] uint64_t begin() const;
  [[nodiscard]] uint64_t end() const { return end_; }
  [[nodiscard]] uint64_t lost() const { return lost_; }
  [[nodiscard]] uint32_t capacity() const { return capacity_; }

 private:
  [[nodiscard]] uint32_t head() const { return mode_ == wire::Mode::Collect ? capacity_ / 2 : 0; }
  [[nodiscard]] uint64_t tail_begin() const;

  uint8_t* base_ = nullptr;
  wire::Mode mode_ = wire::Mode::Stream;
  uint32_t capacity_ = 0;
  uint64_t end_ = 0;
  uint64_t consumed_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace caisson::init
