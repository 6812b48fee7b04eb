// guest/carried/queue.h — frames on their way out, in one bounded piece of memory.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/protocol/codec.h"

namespace caisson::carried {

class FrameQueue {
 public:
  void open(uint8_t* memory, size_t size) {
    memory_ = memory;
    size_ = size;
  }
  [[nodiscard]] size_t room() const { return size_ - (end_ - begin_); }
  [[nodiscard]] bool empty() const { return begin_ == end_; }

  // Room for a frame's payload, which the caller fills; null when there is none.
  uint8_t* frame(wire::Kind kind, uint16_t stream, uint32_t id, size_t size);
  template <class Body>
  bool send(wire::Kind kind, uint16_t stream, uint32_t id, const Body& body) {
    uint8_t* at = frame(kind, stream, id, sizeof(body));
    if (at != nullptr) __builtin_memcpy(at, &body, sizeof(body));
    return at != nullptr;
  }
  // The same for a frame whose size is known only when it is there: at most `size` bytes, header
  // included, then commit() or nothing.
  uint8_t* reserve(size_t size);
  void commit(size_t size) { end_ += size; }
  // A whole frame, as it is.
  bool pass(wire::Bytes frame);

  [[nodiscard]] wire::Bytes pending() const { return {memory_ + begin_, end_ - begin_}; }
  void taken(size_t size) { begin_ += size; }
  void clear() { begin_ = end_ = 0; }

 private:
  uint8_t* memory_ = nullptr;
  size_t size_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace caisson::carried
