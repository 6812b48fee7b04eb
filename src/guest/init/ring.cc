#include "guest/init/ring.h"

#include "guest/init/sys.h"

namespace caisson::init {

using wire::Mode;

void Ring::open(Mode mode, uint32_t capacity) {
  *this = Ring();
  mode_ = mode;
  capacity_ = capacity;
}

void Ring::close() {
  unmap(base_, capacity_);
  base_ = nullptr;
  capacity_ = 0;
}

// The oldest byte that the circular part holds. In Collect that part begins behind the head.
uint64_t Ring::tail_begin() const {
  const uint64_t size = capacity_ - head();
  const uint64_t first = head();
  if (end_ <= first) return first;
  return larger(first, end_ > size ? end_ - size : 0);
}

uint64_t Ring::begin() const {
  if (capacity_ == 0) return end_;
  return mode_ == Mode::Collect ? 0 : tail_begin();
}

int Ring::writable(uint64_t protect, Span spans[2]) {
  if (capacity_ == 0) return 0;
  if (base_ == nullptr) base_ = map_unshared(capacity_);
  if (base_ == nullptr) return 0;
  if (end_ < head()) {
    spans[0] = Span{base_ + end_, static_cast<size_t>(head() - end_)};
    spans[1] = Span{base_ + head(), capacity_ - head()};
    return 2;
  }
  const uint64_t size = capacity_ - head();
  const uint64_t unread = protect < end_ ? end_ - protect : 0;
  if (unread >= size) return 0;
  const uint64_t room = size - unread;
  const uint64_t at = (end_ - head()) % size;
  const uint64_t first = smaller(room, size - at);
  spans[0] = Span{base_ + head() + at, static_cast<size_t>(first)};
  if (first == room) return 1;
  spans[1] = Span{base_ + head(), static_cast<size_t>(room - first)};
  return 2;
}

void Ring::wrote(size_t bytes) {
  const uint64_t before = larger(tail_begin(), consumed_);
  end_ += bytes;
  const uint64_t oldest = tail_begin();
  if (oldest > before) lost_ += oldest - before;
}

Span Ring::readable(uint64_t& offset) const {
  if (base_ == nullptr || offset >= end_) return Span{};
  if (offset < head()) {
    return Span{base_ + offset, static_cast<size_t>(smaller<uint64_t>(head(), end_) - offset)};
  }
  offset = larger(offset, tail_begin());
  const uint64_t size = capacity_ - head();
  const uint64_t at = (offset - head()) % size;
  return Span{base_ + head() + at, static_cast<size_t>(smaller(end_ - offset, size - at))};
}

void Ring::consumed(uint64_t up_to) { consumed_ = larger(consumed_, smaller(up_to, end_)); }

}  // namespace caisson::init
