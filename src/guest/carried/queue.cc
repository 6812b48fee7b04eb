#include "guest/carried/queue.h"

#include <string.h>

namespace caisson::carried {

uint8_t* FrameQueue::reserve(size_t size) {
  if (room() < size) return nullptr;
  if (begin_ == end_) begin_ = end_ = 0;
  if (size_ - end_ < size) {
    memmove(memory_, memory_ + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return memory_ + end_;
}

uint8_t* FrameQueue::frame(wire::Kind kind, uint16_t stream, uint32_t id, size_t size) {
  const wire::FrameHeader header{static_cast<uint32_t>(size), static_cast<uint16_t>(kind), stream,
                                 id};
  uint8_t* at = reserve(sizeof(header) + size);
  if (at == nullptr) return nullptr;
  memcpy(at, &header, sizeof(header));
  commit(sizeof(header) + size);
  return at + sizeof(header);
}

bool FrameQueue::pass(wire::Bytes frame) {
  uint8_t* at = reserve(frame.size);
  if (at == nullptr) return false;
  memcpy(at, frame.data, frame.size);
  commit(frame.size);
  return true;
}

}  // namespace caisson::carried
