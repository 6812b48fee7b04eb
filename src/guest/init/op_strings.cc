#include "guest/init/op_strings.h"

#include <errno.h>
#include <string.h>

#include "guest/init/sys.h"

namespace caisson::init {

using wire::Step;

OpStrings::OpStrings(OpChannel& channel, size_t bytes_max)
    : bytes_(reinterpret_cast<char*>(map_unshared(bytes_max + 1))) {
  if (bytes_ == nullptr) channel.fail(ENOMEM, Step::Io);
  for (;;) {
    const size_t got = channel.read(bytes_ + size_, bytes_max + 1 - size_);
    if (got == 0) break;
    size_ += got;
    if (size_ > bytes_max) channel.fail(E2BIG, Step::Limit, "too many names or too long a pattern");
  }
  if (size_ != 0 && bytes_[size_ - 1] != '\0')
    channel.fail(EINVAL, Step::Request, "a string without its end");
}

const char* OpStrings::next() {
  if (at_ == size_) return nullptr;
  const char* text = bytes_ + at_;
  at_ += strlen(text) + 1;
  return text;
}

}  // namespace caisson::init
